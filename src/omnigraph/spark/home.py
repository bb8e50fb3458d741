"""What a Spark that we start is given: a Java that it can start, a place for its files, and one for what it prints."""

import shlex
from pathlib import Path

import pyspark

from omnigraph.config.java import VECTORS, Java

_JAVA = """\
#!/bin/sh
# Started by Spark as Java. What Java prints goes to a file: a command's own output stays clean.
{drop}exec {java} "$@" 2>>{printed}
"""
_DROP = f"""\
for word do  # Spark asks for a module that this runtime lacks
  shift
  [ "$word" = {VECTORS} ] || set -- "$@" "$word"
done
"""
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
_MOST_SHOWN = 4000
"""How many characters of what Java printed are shown when it does not start."""


class Home:
    """Files for one Spark, below a directory of our own."""

    def __init__(self, directory: Path, *, level: str = "warn") -> None:
        self.directory = directory
        self.printed = directory / "printed.log"
        """What the JVM prints: its log, and its last words."""
        self.logging = directory / "log4j2.properties"
        self.logging.write_text(_LOGGING.format(level=level), encoding="utf-8")

    def java_home(self, java: Java) -> Path:
        """A directory to be used as JAVA_HOME, which holds what Spark starts of it and no more."""
        program = self.directory / "java" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        drop = "" if java.has_vectors else _DROP
        text = _JAVA.format(drop=drop, java=shlex.quote(str(java.program)), printed=shlex.quote(str(self.printed)))
        program.write_text(text, encoding="utf-8")
        program.chmod(0o700)
        return program.parents[1]

    def spark_home(self) -> Path:
        """PySpark's own Spark under another address: local clusters write into the directory where Spark is."""
        home = self.directory / "spark"
        home.mkdir(exist_ok=True)
        for part in Path(pyspark.__file__).parent.iterdir():
            link = home / part.name
            if part.is_dir() and part.name != "work" and not link.exists():
                link.symlink_to(part)
        return home

    def last_words(self) -> str:
        """The end of what the JVM printed."""
        try:
            text = self.printed.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return text[-_MOST_SHOWN:].strip()
