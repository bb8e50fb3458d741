"""What a Spark that we start is given: a Java that it can start, a place for its files, and one for what it prints."""

import atexit
import os
import re
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark import SparkContext

from omnigraph.spark.session.java_runtime import VECTOR_MODULE_OPTION, JavaRuntime

_JAVA_LAUNCHER = """\
#!/bin/sh
# Started by Spark as Java. What Java prints goes to a file: a command's own output stays clean.
echo $$ >>{started}
{drop}exec {java} "$@" 2>>{printed}
"""
_DROP = f"""\
for word do  # Spark asks for a module that this runtime lacks
  shift
  [ "$word" = {VECTOR_MODULE_OPTION} ] || set -- "$@" "$word"
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
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_RAISED = re.compile(r'^(Exception in thread "[^"]*" |Caused by: )?([\w$]+\.)+[\w$]+: ')
_MAX_SHOWN_CHARACTERS = 4000
"""How many characters of what Java printed are shown when it does not start."""


class LaunchEnvironment:
    """Files for one Spark, below a directory of our own."""

    def __init__(self, directory: Path, *, level: str = "warn") -> None:
        self.directory = directory
        self.output_path = directory / "printed.log"
        """What the JVM prints: its log, and its last words."""
        self.pids_path = directory / "started"
        """The number of every process that was started as Java."""
        atexit.register(self.kill_abandoned)
        self.logging = directory / "log4j2.properties"
        self.logging.write_text(_LOGGING.format(level=level), encoding="utf-8")

    def create_java_home(self, java: JavaRuntime) -> Path:
        """A directory to be used as JAVA_HOME, which holds what Spark starts of it and no more."""
        program = self.directory / "java" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        drop = "" if java.has_vectors else _DROP
        text = _JAVA_LAUNCHER.format(
            drop=drop,
            java=shlex.quote(str(java.program)),
            printed=shlex.quote(str(self.output_path)),
            started=shlex.quote(str(self.pids_path)),
        )
        program.write_text(text, encoding="utf-8")
        program.chmod(0o700)
        return program.parents[1]

    def create_spark_home(self) -> Path:
        """PySpark's own Spark under another address: local clusters write into the directory where Spark is."""
        home = self.directory / "spark"
        home.mkdir(exist_ok=True)
        for part in Path(pyspark.__file__).parent.iterdir():
            link = home / part.name
            if part.is_dir() and part.name != "work" and not link.exists():
                link.symlink_to(part)
        return home

    def kill_abandoned(self) -> None:
        """End every JVM of this process but the one in use.

        One whose start was interrupted can't be reached by anybody, and would not end by itself.
        """
        gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way
        used = gateway.proc.pid if gateway is not None and gateway.proc is not None else None
        with suppress(FileNotFoundError):
            for number in map(int, self.pids_path.read_text(encoding="utf-8").split()):
                if number != used:
                    _kill(number)

    def read_last_output(self) -> str:
        """The end of what the JVM printed, without the stacks and names of its exceptions."""
        try:
            text = self.output_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        lines = (line for line in text[-_MAX_SHOWN_CHARACTERS:].splitlines() if not _FRAME.match(line))
        return "\n".join(_RAISED.sub("", line) for line in lines).strip()


def _kill(number: int) -> None:
    """End a process, if it is a child of this one and still runs."""
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitpid(number, os.WNOHANG) == (0, 0):
            os.kill(number, signal.SIGKILL)
