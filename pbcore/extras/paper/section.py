"""The page's section with a run's points over the published ones."""

from collections.abc import Mapping, Sequence

from pbcore.extras.paper.official_site import MODELS
from pbcore.report.answers import ReportCell


class Overlay:
    """A `report.page.write.PictureSection`."""

    short = "Over published points"
    told = (
        "the run's points, dashed, over those that the benchmark's authors published of the model,"
        " on the same tasks; their questions are the benchmark's"
    )

    def svg(self, answers: Sequence[ReportCell], same: Mapping[str, str]) -> str:
        """The picture; empty where no model of the run is published, and for several runs."""
        names = {answer.cell.model for answer in answers}
        if not names & {*same, *MODELS} or any(a.model != a.cell.model for a in answers):
            return ""
        from pbcore.extras.paper.overlay import published_svg  # imports matplotlib

        return published_svg(answers, same)


SECTION = Overlay()
