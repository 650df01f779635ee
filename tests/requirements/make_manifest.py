"""Write manifest.json from the promises of capabilities.md; keep what is declared deferred."""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def promises(text: str) -> dict[str, str]:
    """Id and words of every promise of a capabilities page."""
    rows = re.finditer(r"^\| ([A-Z]{2,3}-\d\d) \| (.+?) \| [^|]+ \|$", text, re.MULTILINE)
    return {row[1]: row[2].replace("`", "") for row in rows}


def main() -> None:
    """Re-read the promises; keep what is declared deferred."""
    text = (HERE.parents[2] / "shared" / "design" / "capabilities.md").read_text()
    path = HERE / "manifest.json"
    old = {row["id"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    rows = [
        {
            "id": name,
            "promise": promise,
            "deferred": old.get(name, {}).get("deferred", "not built yet"),
        }
        for name, promise in promises(text).items()
    ]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(rows)} promises\n")


if __name__ == "__main__":
    main()
