"""Read a TOML settings file strictly: unknown settings and wrong types are rejected, with a way out."""

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from omnigraph.errors import (
    BadFileError,
    FileDeniedError,
    FileMissingError,
    FileUnreadableError,
    SettingsError,
)
from omnigraph.lang.spelling import find_closest

# The file of a server and of personal settings.
CONFIG_FILE = "omnigraph.toml"

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|kB|KiB|MB|MiB|GB|GiB)")
_UNITS = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
# A larger file was named by mistake; at most one byte more of it is read into memory.
_MAX_FILE_BYTES = 1024 * 1024


class SettingsSection:
    """A table of a settings file. Settings are read by name; `finish` rejects those that were never read."""

    def __init__(self, file: Path, values: dict[str, object], name: str = "") -> None:
        self._file = file
        self._values = values
        self._name = name
        self._read_keys: list[str] = []

    def build_error(self, key: str, reason: str) -> SettingsError:
        """Build the error for an invalid setting."""
        return SettingsError(str(self._file), self._qualify(key), reason)

    def has(self, key: str) -> bool:
        """Return whether a setting is there."""
        return self._get(key) is not None

    def get_text(self, key: str) -> str | None:
        """Return a text that is not empty, or None if it is not set."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.build_error(key, f'write a text in quotes, such as {key} = "…"')
        return value

    def get_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty if it is not set."""
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
            raise self.build_error(key, f'write texts in brackets, such as {key} = ["…"]')
        return tuple(value)

    def get_path(self, key: str) -> Path | None:
        """Return a path, or None; a relative path starts at the directory of the file."""
        value = self.get_text(key)
        return None if value is None else self._file.parent / Path(value).expanduser()

    def get_choice(self, key: str, choices: Sequence[str]) -> str | None:
        """Return one of the given words, or None if it is not set."""
        value = self.get_text(key)
        if value is not None and value not in choices:
            near = find_closest(value, choices)
            hint = f"; did you mean `{near}`?" if near else ""
            raise self.build_error(key, f"write one of {', '.join(choices)}{hint}")
        return value

    def get_switch(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.build_error(key, "write true or false")
        return value

    def get_count(self, key: str, default: int) -> int:
        """Return a whole number above 0."""
        value = self._get(key)
        if value is None:
            return default
        # In Python, a bool is an int.
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.build_error(key, "write a whole number above 0")
        return value

    def get_seconds(self, key: str, default: float) -> float:
        """Return a number of seconds above 0."""
        value = self._get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.build_error(key, "write a number of seconds above 0")
        return float(value)

    def get_days(self, key: str, default: float) -> float:
        """Return a number of days; 0, which may be written as "off", means never."""
        value = self._get(key)
        if value is None:
            return default
        if value == "off":
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self.build_error(key, 'write a number of days above 0, or "off"')
        return float(value)

    def get_size(self, key: str, default: int) -> int:
        """Return a number of bytes above 0; it may be written as a text such as `32 MiB`."""
        value = self._get(key)
        if value is None:
            return default
        size = value if isinstance(value, int) and not isinstance(value, bool) else _parse_size(str(value))
        if size is None or size < 1:
            raise self.build_error(key, 'write a number of bytes, or a size such as "32 MiB"')
        return size

    def get_section(self, key: str) -> "SettingsSection":
        """Return a nested table, empty if it is not there."""
        value = self._get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.build_error(key, f"it is a section: write [{self._qualify(key)}]")
        return SettingsSection(self._file, value, self._qualify(key))

    def list_values(self, key: str) -> list[tuple[str, object]]:
        """Return the settings of a nested table by name, whatever they are; none if it is not there."""
        return sorted(self.get_section(key)._values.items())  # noqa: SLF001 - another instance of this class

    def get_instant(self, key: str) -> datetime | None:
        """Return a time with a zone, or None if it is not set."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self.build_error(key, "write a time with a zone, without quotes, such as 2030-01-31T12:00:00Z")
        return value

    def list_sections(self, key: str) -> list["SettingsSection"]:
        """Return the tables of an array, which is written as [[key]]."""
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
            raise self.build_error(key, f"it is a list of sections: write [[{self._qualify(key)}]]")
        name = self._qualify(key)
        return [SettingsSection(self._file, table, f"{name}[{index}]") for index, table in enumerate(value)]

    def iter_sections(self, key: str) -> Iterator[tuple[str, "SettingsSection"]]:
        """Yield the tables nested in a table, by name."""
        outer = self.get_section(key)
        for name in outer._values:  # noqa: SLF001 - another instance of this class
            yield name, outer.get_section(name)

    def finish(self) -> None:
        """Check that every setting of the table was read.

        Raises:
            SettingsError: There is an unknown setting.
        """
        for key in self._values:
            if key not in self._read_keys:
                near = find_closest(key, self._read_keys)
                hint = f"did you mean `{near}`?" if near else f"there are {', '.join(sorted(self._read_keys))}"
                raise self.build_error(key, f"there is no such setting; {hint}")

    def _get(self, key: str) -> object:
        self._read_keys.append(key)
        return self._values.get(key)

    def _qualify(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def read_settings(path: Path) -> SettingsSection:
    """Read a whole settings file.

    Raises:
        SettingsError: It is not valid TOML.
        FileMissingError, BadFileError, FileDeniedError, FileUnreadableError: It can't be read.
    """
    text = read_text(path)
    try:
        return SettingsSection(path.absolute(), tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), "", f"it is not valid TOML: {error}") from error


def read_text(path: Path) -> str:
    """Read a small text file.

    Raises:
        SettingsError: It is not UTF-8, or has more than 1 MiB.
        FileMissingError, BadFileError, FileDeniedError, FileUnreadableError: It can't be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise FileMissingError(str(path)) from error
    except IsADirectoryError as error:
        raise BadFileError.not_a_file(str(path)) from error
    except PermissionError as error:
        raise FileDeniedError(str(path), "read") from error
    except OSError as error:
        raise FileUnreadableError(str(path), error.strerror or str(error)) from error
    if len(data) > _MAX_FILE_BYTES:
        raise SettingsError(str(path), "", "it has more than 1 MiB; a settings file is smaller")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), "", f"it is not UTF-8: see byte {error.start}") from error


def _parse_size(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(float(match[1]) * _UNITS[match[2]])
