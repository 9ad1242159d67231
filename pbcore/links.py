"""Where the project and its pages are on the web, and how its extras are installed: an installed
package has no docs folder, and no package index has pbcore.
"""

PROJECT = "https://github.com/pbcore/pbcore"


def docs(page: str) -> str:
    """The address of a page of docs/, such as `servers.md`."""
    return f"{PROJECT}/blob/main/docs/{page}"


def install(extra: str) -> str:
    """What to run for an extra such as `ray`."""
    return f"pip install -c constraints.txt -e '.[{extra}]' in pbcore's folder"
