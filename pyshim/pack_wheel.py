"""A wheel from pyproject.toml and files, with the standard library alone: for machines that only have Python.

`pip install .` goes through hatchling; this writes the same files and metadata, without a network. It refuses nothing:
build.py checks that there is a package to pack.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def wheel_metadata(table: Mapping[str, Any], readme: str) -> str:
    """METADATA (core metadata 2.4) from the [project] table."""
    lines = ["Metadata-Version: 2.4", f"Name: {table['name']}", f"Version: {table['version']}"]
    lines += [f"Summary: {table['description']}", f"License-Expression: {table['license']}"]
    lines += [f"License-File: {name}" for name in table["license-files"]]
    lines += [f"Keywords: {','.join(table['keywords'])}"]
    lines += [f"Classifier: {text}" for text in table["classifiers"]]
    lines += [f"Requires-Python: {table['requires-python']}"]
    lines += [f"Requires-Dist: {need}" for need in table["dependencies"]]
    for extra, needs in table["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def write_wheel(path: Path, root: Path, table: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """A py3-none-any wheel with `files` (name -> bytes) and, from `root`, the README and the licence files.

    Names are sorted and dates fixed: the same sources give the same bytes.
    """
    info = f"{table['name']}-{table['version']}.dist-info"
    scripts = "".join(f"{name} = {target}\n" for name, target in table.get("scripts", {}).items())
    tag = "Wheel-Version: 1.0\nGenerator: areole build.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {
        **files,
        f"{info}/METADATA": wheel_metadata(table, (root / table["readme"]).read_text(encoding="utf-8")).encode(),
        f"{info}/WHEEL": tag.encode(),
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        **{f"{info}/licenses/{name}": (root / name).read_bytes() for name in table["license-files"]},
    }
    record = ""
    for name, data in sorted(members.items()):
        value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={value},{len(data)}\n"
    members[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # RECORD last, as the format recommends.
        for name, data in sorted(members.items(), key=lambda member: (member[0].endswith("/RECORD"), member[0])):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    partial.replace(path)
