"""The names of one file and what they mean: ranges that bound cycles, and kinds of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.attribution.scopes import OWN, ROLES
from traceana_parsers.kernels import classify
from traceana_parsers.traces.annotations import annotate

if TYPE_CHECKING:
    from traceana.store.dataset import Tables


class FileNames:
    """The names of one file and what they mean."""

    def __init__(self, tables: Tables, file_id: int) -> None:
        self.names = tables.frame("names", only={"file_id": file_id})
        self._kinds: pl.DataFrame | None = None
        said = self.names.select("file_id", "name_id").hstack(annotate(self.names["name"]))
        engines = said["engine"].drop_nulls().unique().to_list()
        self.engine = str(engines[0]) if len(engines) == 1 else None
        self.roles = said.filter(pl.col("role").is_in(ROLES)).with_columns(pl.col("generation_tokens").alias("tokens"))
        own = self.names.filter(pl.col("name").is_in(OWN))
        #: names of the ranges that may bound cycles and phases
        self.of_scopes = frozenset(pl.concat([self.roles["name_id"], own["name_id"]]).to_list())

    def kinds(self, kernels: pl.Series) -> pl.DataFrame:
        """What the names of kernels mean, by id: file_id, name_id, family, category, collective, library."""
        used = self.names.filter(pl.col("name_id").is_in(kernels.implode()))
        if self._kinds is not None:  # processes of a file run much the same kernels
            used = used.join(self._kinds, on="name_id", how="anti")
        new = used.select("file_id", "name_id").hstack(
            classify(used["name"]).select("family", "category", "collective", "library")
        )
        self._kinds = new if self._kinds is None else pl.concat([self._kinds, new])
        return self._kinds.filter(pl.col("name_id").is_in(kernels.implode()))
