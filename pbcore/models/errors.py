"""The error of models, apart so that names can be checked without importing torch."""


class ModelError(RuntimeError):
    """A model that can't be loaded or can't answer such a prompt; the message says what to do."""
