import pytest

from infer_app.cli.model.model import RecipeFlags
from infer_app.domain import Recipe
from infer_app.errors import UsageError


def flags(kind: str = "stretch", decode: str = "exact", preprocess: str | None = None) -> RecipeFlags:
    return RecipeFlags(
        kind,
        224,
        resize=None,
        crop_pct=None,
        crop=None,
        interpolation="bicubic",
        exif="apply",
        decode=decode,
        preprocess=preprocess,
    )


def test_decoding_is_exact_scaled_or_a_gpus():
    assert flags().recipe() == Recipe("stretch", 224)
    assert flags(decode="scaled").recipe() == Recipe("stretch", 224, decode="scaled")
    assert flags(decode="gpu").recipe() == Recipe("stretch", 224, decode="gpu")
    with pytest.raises(UsageError, match="--decode 'fast' is not known"):
        flags(decode="fast").recipe()


@pytest.mark.parametrize("decode", ["scaled", "gpu"])
def test_a_users_own_function_gets_whole_pictures(decode: str):
    with pytest.raises(UsageError, match=f"--decode {decode} does not go with --preprocess") as caught:
        flags(decode=decode, preprocess="steps:prepare").recipe()
    assert caught.value.hint == "leave --decode out"
