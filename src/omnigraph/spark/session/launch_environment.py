"""The environment of a Spark that we start: a Java launcher, a directory for its files, and a log of its output."""

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
# Started by Spark as Java. Java's output goes to a file, to keep the output of the command clean.
echo $$ >>{started}
{drop}exec {java} "$@" 2>>{printed}
"""
_DROP = f"""\
for word do  # Spark requests a module that this runtime lacks
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
# Stack frames of Java, and the class names in front of exception messages: noise for a user.
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_RAISED = re.compile(r'^(Exception in thread "[^"]*" |Caused by: )?([\w$]+\.)+[\w$]+: ')
# The limit of Java's output that is read for the message when it does not start.
_MAX_SHOWN_CHARACTERS = 4000


class LaunchEnvironment:
    """The files for one Spark, in our own directory."""

    def __init__(self, directory: Path, *, level: str = "warn") -> None:
        self.directory = directory
        self.output_path = directory / "printed.log"
        """The log and the error output of the JVM."""
        self.pids_path = directory / "started"
        """The ids of all processes that were started as Java."""
        atexit.register(self.kill_abandoned)
        self.logging = directory / "log4j2.properties"
        self.logging.write_text(_LOGGING.format(level=level), encoding="utf-8")

    def create_java_home(self, java: JavaRuntime) -> Path:
        """Create a directory to use as `JAVA_HOME`, with only the launcher in it, and return its path."""
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
        """Create a copy of PySpark's Spark by symbolic links, and return its path.

        Local clusters write into the directory of Spark; PySpark's own, in the installation, must stay unchanged.
        """
        home = self.directory / "spark"
        home.mkdir(exist_ok=True)
        for part in Path(pyspark.__file__).parent.iterdir():
            link = home / part.name
            # `work` is what a local cluster writes: it must become a real directory here.
            if part.is_dir() and part.name != "work" and not link.exists():
                link.symlink_to(part)
        return home

    def kill_abandoned(self) -> None:
        """Terminate every JVM that this process started, except the one in use.

        A JVM whose start was interrupted has no connection, and would not end on its own.
        """
        gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way
        used_pid = gateway.proc.pid if gateway is not None and gateway.proc is not None else None
        with suppress(FileNotFoundError):
            for pid in map(int, self.pids_path.read_text(encoding="utf-8").split()):
                if pid != used_pid:
                    _kill(pid)

    def read_last_output(self) -> str:
        """Return the end of the JVM's output, without the stacks and class names of exceptions."""
        try:
            text = self.output_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        lines = (line for line in text[-_MAX_SHOWN_CHARACTERS:].splitlines() if not _FRAME.match(line))
        return "\n".join(_RAISED.sub("", line) for line in lines).strip()


def _kill(pid: int) -> None:
    """Terminate a process if it is a child of this one and still runs."""
    with suppress(ChildProcessError, ProcessLookupError):
        # Process ids are reused: `waitpid` fails for a process that is not our child.
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)
