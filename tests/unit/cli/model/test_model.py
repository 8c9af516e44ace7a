import pytest

from infer_app.cli.model.build import make_recipe
from infer_app.cli.terminal.options import BuildOptions
from infer_app.domain import Recipe
from infer_app.errors import UsageError


def recipe(**options: str) -> Recipe:
    return make_recipe(BuildOptions(**{"source": "net.ts", "name": "net", "recipe": "stretch"} | options))


def test_decoding_is_exact_scaled_or_a_gpus():
    assert recipe() == Recipe("stretch", 224)
    assert recipe(decode="scaled") == Recipe("stretch", 224, decode="scaled")
    assert recipe(decode="gpu") == Recipe("stretch", 224, decode="gpu")
    with pytest.raises(UsageError, match="--decode 'fast' is not known"):
        recipe(decode="fast")


@pytest.mark.parametrize("decode", ["scaled", "gpu"])
def test_a_users_own_function_gets_whole_pictures(decode: str):
    with pytest.raises(UsageError, match=f"--decode {decode} does not go with --preprocess") as caught:
        recipe(decode=decode, preprocess="steps:prepare")
    assert caught.value.hint == "leave --decode out"
