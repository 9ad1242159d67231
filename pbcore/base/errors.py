"""The one family of errors that users meet: wrong input, results or models that can't be used. All
else is a bug.
"""


class PbcoreError(Exception):
    """Something that the user can mend: the message says what was given, what is allowed and what
    to do. The command line and the plugin show it without a traceback; `status` is the command
    line's exit status.
    """

    status = 2


class InputError(PbcoreError, ValueError):
    """A name, an option or a file's content that can't be used."""
