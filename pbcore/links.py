"""Where the project and its pages are on the web, and how its extras are installed: an installed
package has no docs folder, and no package index has pbcore.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


@cache
def project() -> str:
    """The project's address, from the package's own metadata; empty where it isn't installed."""
    try:
        urls = metadata("pbcore").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    addresses: dict[str, str] = dict(str(url).split(", ", 1) for url in urls)
    return addresses.get("Homepage", "").rstrip("/")


def docs(page: str) -> str:
    """The address of a page of docs/, such as `servers.md`."""
    address = project()
    return f"{address}/blob/main/docs/{page}" if address else f"docs/{page}"


def install_command(extra: str) -> str:
    """What to run for an extra such as `ray`."""
    return f"pip install -c constraints.txt -e '.[{extra}]' in pbcore's folder"
