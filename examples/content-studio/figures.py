"""The figures of the publication, grouped by a column of data/articles.csv: figures.json and figures.md."""

import json
import os
import sys
from pathlib import Path

import pandas as pd

PROJECT = Path(os.environ.get("PROJECT_ROOT", Path(__file__).parent))


def figures(articles: pd.DataFrame, by: str) -> pd.DataFrame:
    table = articles.groupby(by).agg(articles=("title", "count"), words=("words", "sum"), views=("views", "sum"))
    table["views per article"] = (table["views"] / table["articles"]).round().astype(int)
    return table.sort_values("views", ascending=False)


def main(by: str) -> None:
    articles = pd.read_csv(PROJECT / "data" / "articles.csv", parse_dates=["published"])
    articles["month"] = articles["published"].dt.strftime("%Y-%m")
    if by not in articles.columns:
        sys.exit(f"there is no column {by}; choose one of {', '.join(articles.columns)}")
    table = figures(articles, by)
    Path("figures.json").write_text(json.dumps({"by": by, "rows": json.loads(table.reset_index().to_json(orient="records"))}, indent=2) + "\n")
    Path("figures.md").write_text(f"# Views by {by}\n\n{table.to_markdown()}\n")
    print(f"pandas {pd.__version__}: {len(articles)} articles in {len(table)} groups by {by}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "author")
