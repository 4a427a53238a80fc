"""Makes pyshim/areole/core/abi.py from areole.h: functions, structs and statuses as plain Python values.

    python core_c/abi.py            # writes the file
    python core_c/abi.py --check    # fails when the file is not what areole.h says

The header is read by cffi's own parser, so the table cannot say anything that a C compiler would not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE / "areole.h"
TARGET = HERE.parent / "pyshim" / "areole" / "core" / "abi.py"


def declarations(header: str) -> str:
    """The header as cffi reads it: no comments, no preprocessor, no attributes."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M).replace("AREOLE_API ", "")
    return re.sub(r"[ \t]*\n\s*", "\n", text).strip() + "\n"


def generate(header: str) -> str:
    """The text of abi.py."""
    import cffi
    from pycparser import c_ast, c_parser

    cdef = declarations(header)
    ffi = cffi.FFI()
    ffi.cdef(cdef)
    prelude = "".join(f"typedef int {t}_t;" for t in ("int8", "uint8", "int32", "uint32", "uint16"))
    functions: dict[str, str] = {}
    enums: dict[str, dict[str, int]] = {}
    for node in c_parser.CParser().parse(prelude + cdef).ext:
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            parameters = node.type.args.params if node.type.args else []
            kinds = ""
            for parameter in parameters:
                if isinstance(parameter.type, c_ast.PtrDecl):
                    kinds += "p"
                elif parameter.type.type.names == ["void"]:
                    continue
                else:
                    kinds += "f" if parameter.type.type.names == ["float"] else "u"
            functions[node.name] = kinds
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum):
            enums[node.type.name] = {k: v for v, k in ffi.typeof(f"enum {node.type.name}").elements.items()}
    structs = {
        name: [
            (field, "f" if "float" in kind.type.cname else "I", kind.type.length if kind.type.kind == "array" else 1)
            for field, kind in ffi.typeof(name).fields
        ]
        for name in ("areole_geometry", "areole_tensor")
    }
    out = [
        '"""The core\'s ABI as values. Made by core_c/abi.py from core_c/areole.h: change that, not this."""',
        "",
        "from __future__ import annotations",
        "",
        "ABI_VERSION = 4",
        "",
        "FUNCTIONS: dict[str, str] = {",
        *(f'    "{name}": "{kinds}",' for name, kinds in functions.items()),
        "}",
        '"""Exported function -> its parameters: p an address, u an unsigned integer, f a float. All return an int."""',
        "",
        "STRUCTS: dict[str, tuple[tuple[str, str, int], ...]] = {",
    ]
    for name, fields in structs.items():
        out += [f'    "{name}": (', *(f'        ("{f}", "{k}", {n}),' for f, k, n in fields), "    ),"]
    out += [
        "}",
        '"""Struct -> fields in order: name, struct-module type, count. All fields are 4 bytes, little-endian."""',
    ]
    for enum, label in (
        ("areole_status", "STATUSES"),
        ("areole_flavors", "FLAVORS"),
        ("areole_prefill_flags", "FLAGS"),
        ("areole_dtypes", "DTYPES"),
        ("areole_limits", "LIMITS"),
    ):
        out += ["", f"{label}: dict[str, int] = {{"]
        out += [f'    "{k.removeprefix("AREOLE_").lower()}": {v},' for k, v in enums[enum].items()]
        out += ["}"]
    out += ["", 'CDEF = """\\', cdef.rstrip("\n"), '"""', '"""The declarations as cffi takes them."""']
    return "\n".join(out) + "\n"


def main(arguments: list[str]) -> int:
    text = generate(HEADER.read_text(encoding="utf-8"))
    if "--check" in arguments:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.name} is not what areole.h says: run python core_c/abi.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(HERE.parent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
