"""Write manifest.json from the promises of capabilities.md; keep what is declared deferred."""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Re-read the promises; keep what is declared deferred."""
    text = (HERE.parents[2] / "shared" / "design" / "capabilities.md").read_text()
    path = HERE / "manifest.json"
    old = {row["id"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    rows = []
    for match in re.finditer(r"^\| ([A-Z]{2,3}-\d\d) \| (.+?) \| [^|]+ \|$", text, re.MULTILINE):
        promise = match[2].replace("`", "")
        deferred = old.get(match[1], {}).get("deferred", "not built yet")
        rows.append({"id": match[1], "promise": promise, "deferred": deferred})
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(rows)} promises\n")


if __name__ == "__main__":
    main()
