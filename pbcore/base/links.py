"""Where the project's pages are, and how its extras are installed. Pages are links once
`[project.urls]` of pyproject.toml names the repository's address; until then their name in the
repository stands for them.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


@cache
def project() -> str:
    """The project's address, `Homepage` of the package's metadata; empty where that names none, or
    the package isn't installed.
    """
    try:
        urls = metadata("pbcore").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    addresses: dict[str, str] = dict(str(url).split(", ", 1) for url in urls)
    return addresses.get("Homepage", "").rstrip("/")


def docs(page: str) -> str:
    """Where a page such as `servers.md` is: its address, or its name, `docs/servers.md`."""
    address = project()
    return f"{address}/blob/main/docs/{page}" if address else f"docs/{page}"


def install_command(extra: str) -> str:
    """What to run for an extra such as `parquet`."""
    return f"pip install -c constraints.txt -e '.[{extra}]' in pbcore's folder"
