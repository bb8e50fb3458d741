"""What an engine of tables can't run."""


class UnsupportedFormError(Exception):
    """A form of the language that an engine can't run; `form` names it, as in "`snippet`"."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.form = form
