"""Where the project and its pages are on the web: an installed package has no docs folder."""

PROJECT = "https://github.com/pbcore/pbcore"


def docs(page: str) -> str:
    """The address of a page of docs/, such as `servers.md`."""
    return f"{PROJECT}/blob/main/docs/{page}"
