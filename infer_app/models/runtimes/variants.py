"""Names that the pipeline still takes from here."""

from infer_app.model_variants import known_variant, variant_of


def precision_of(variant: str) -> str:
    return known_variant(variant).dtype


def is_fitted(variant: str) -> bool:
    return variant_of(variant).is_fitted
