"""A settings file in TOML, read strictly: what is unknown or of the wrong kind is refused, with a way out."""

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from omnigraph.errors import FileDeniedError, FileMissingError, FileUnreadableError, Kind, NotAFileError, OmnigraphError
from omnigraph.lang.spelling import find_closest

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|kB|KiB|MB|MiB|GB|GiB)")
_UNITS = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_MAX_FILE_BYTES = 1024 * 1024


class SettingsError(OmnigraphError):
    """A settings file says something that can't be understood; `key` is where."""

    kind = Kind.USAGE
    code = "bad_settings"

    def __init__(self, path: str, key: str, reason: str) -> None:
        super().__init__(path, key, reason)
        self.path, self.key, self.reason = path, key, reason

    def __str__(self) -> str:
        return f"{self.path}: {f'`{self.key}`: ' if self.key else ''}{self.reason}"


class SettingsSection:
    """A table of a settings file. Each setting is asked for by its name; `finish` refuses those nobody asked for."""

    def __init__(self, file: Path, values: dict[str, object], name: str = "") -> None:
        self._file, self._values, self._name = file, values, name
        self._known: list[str] = []

    def build_error(self, key: str, reason: str) -> SettingsError:
        """What is wrong with a setting."""
        return SettingsError(str(self._file), self._qualify(key), reason)

    def get_text(self, key: str) -> str | None:
        """A text that is not empty."""
        found = self._get(key)
        if found is None:
            return None
        if not isinstance(found, str) or not found.strip():
            raise self.build_error(key, f'write a text in quotes, such as {key} = "…"')
        return found

    def get_texts(self, key: str) -> tuple[str, ...]:
        """Several texts."""
        found = self._get(key)
        if found is None:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
            raise self.build_error(key, f'write texts in brackets, such as {key} = ["…"]')
        return tuple(found)

    def get_path(self, key: str) -> Path | None:
        """A path; one that is not absolute starts where the file is."""
        found = self.get_text(key)
        return None if found is None else self._file.parent / Path(found).expanduser()

    def get_choice(self, key: str, choices: Sequence[str]) -> str | None:
        """One of some words."""
        found = self.get_text(key)
        if found is not None and found not in choices:
            near = find_closest(found, choices)
            hint = f"; did you mean `{near}`?" if near else ""
            raise self.build_error(key, f"write one of {', '.join(choices)}{hint}")
        return found

    def get_switch(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self._get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise self.build_error(key, "write true or false")
        return found

    def get_count(self, key: str, otherwise: int) -> int:
        """A whole number above 0."""
        found = self._get(key)
        if found is None:
            return otherwise
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.build_error(key, "write a whole number above 0")
        return found

    def get_seconds(self, key: str, otherwise: float) -> float:
        """A number above 0."""
        found = self._get(key)
        if found is None:
            return otherwise
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
            raise self.build_error(key, "write a number of seconds above 0")
        return float(found)

    def get_days(self, key: str, otherwise: float) -> float:
        """Return a number of days; 0, which may be written as "off", for never."""
        found = self._get(key)
        if found is None:
            return otherwise
        if found == "off":
            return 0.0
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < math.inf:
            raise self.build_error(key, 'write a number of days above 0, or "off"')
        return float(found)

    def get_size(self, key: str, otherwise: int) -> int:
        """A number of bytes above 0, or a text such as `32 MiB`."""
        found = self._get(key)
        if found is None:
            return otherwise
        given = found if isinstance(found, int) and not isinstance(found, bool) else _parse_size(str(found))
        if given is None or given < 1:
            raise self.build_error(key, 'write a number of bytes, or a size such as "32 MiB"')
        return given

    def get_section(self, key: str) -> "SettingsSection":
        """A table inside of this one; one that is not there is empty."""
        found = self._get(key)
        if found is None:
            found = {}
        if not isinstance(found, dict):
            raise self.build_error(key, f"it is a section: write [{self._qualify(key)}]")
        return SettingsSection(self._file, found, self._qualify(key))

    def get_instant(self, key: str) -> datetime | None:
        """A time with a zone."""
        found = self._get(key)
        if found is None:
            return None
        if not isinstance(found, datetime) or found.tzinfo is None:
            raise self.build_error(key, "write a time with a zone, without quotes, such as 2030-01-31T12:00:00Z")
        return found

    def list_sections(self, key: str) -> list["SettingsSection"]:
        """The tables of a list, as [[key]] makes them."""
        found = self._get(key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.build_error(key, f"it is a list of sections: write [[{self._qualify(key)}]]")
        return [SettingsSection(self._file, one, f"{self._qualify(key)}[{number}]") for number, one in enumerate(found)]

    def iter_sections(self, key: str) -> Iterator[tuple[str, "SettingsSection"]]:
        """The tables inside of a table, by their names."""
        outer = self.get_section(key)
        for name in outer._values:  # noqa: SLF001 - another object of this very class
            yield name, outer.get_section(name)

    def finish(self) -> None:
        """SettingsError for a setting that there is not."""
        for key in self._values:
            if key not in self._known:
                near = find_closest(key, self._known)
                known = f"did you mean `{near}`?" if near else f"there are {', '.join(sorted(self._known))}"
                raise self.build_error(key, f"there is no such setting; {known}")

    def _get(self, key: str) -> object:
        self._known.append(key)
        return self._values.get(key)

    def _qualify(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def read_settings(path: Path) -> SettingsSection:
    """The whole file.

    Raises:
        SettingsError: It is no TOML.
        FileMissingError, NotAFileError, FileDeniedError, FileUnreadableError: It can't be read.
    """
    text = read_text(path)
    try:
        return SettingsSection(path.absolute(), tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), "", f"this is no TOML: {error}") from error


def read_text(path: Path) -> str:
    """A small text file, whole. Raises as `read_settings`."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise FileMissingError(str(path)) from error
    except IsADirectoryError as error:
        raise NotAFileError(str(path)) from error
    except PermissionError as error:
        raise FileDeniedError(str(path), "read") from error
    except OSError as error:
        raise FileUnreadableError(str(path), error.strerror or str(error)) from error
    if len(data) > _MAX_FILE_BYTES:
        raise SettingsError(str(path), "", "it has more than 1 MiB, which no settings have")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), "", f"it is not UTF-8: see byte {error.start}") from error


def _parse_size(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])
