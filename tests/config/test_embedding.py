"""The embedding provider as the environment names it."""

from omnigraph.config.environment import read_embedding_options
from omnigraph.options import EmbedOptions, EmbedProvider

OPENAI = {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_MODEL": "m", "OPENAI_API_KEY": "theirs"}


def test_without_variables_there_is_no_provider() -> None:
    assert read_embedding_options({}) == EmbedOptions()


def test_the_variables_name_provider_model_and_place() -> None:
    found = read_embedding_options(
        {**OPENAI, "OMNIGRAPH_EMBED_URL": "http://localhost:8000/v1", "OMNIGRAPH_EMBED_KEY": "mine"}
    )

    assert found == EmbedOptions(provider=EmbedProvider.OPENAI, url="http://localhost:8000/v1", model="m", key="mine")


def test_the_key_of_openai_is_for_openai() -> None:
    assert read_embedding_options(OPENAI).key == "theirs"
    assert read_embedding_options({**OPENAI, "OMNIGRAPH_EMBED_URL": "https://api.openai.com/v1/"}).key == "theirs"


def test_the_key_of_openai_is_given_to_nobody_else() -> None:
    assert read_embedding_options({**OPENAI, "OMNIGRAPH_EMBED_URL": "https://elsewhere.example/v1"}).key is None


def test_a_key_of_our_own_comes_first() -> None:
    assert read_embedding_options({**OPENAI, "OMNIGRAPH_EMBED_KEY": "mine"}).key == "mine"
