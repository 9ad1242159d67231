"""The grammar server of the metrics' tests."""

from tests.metrics.conftest import url as url
