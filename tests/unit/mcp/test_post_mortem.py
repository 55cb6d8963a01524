"""The tool that explains failures, for language models."""

from tests.unit.mcp.test_tools import call, read_text


def test_a_post_mortem_says_why() -> None:
    """Its summary and first cause in words, and the answer as it is."""
    message = "CUDA out of memory. Tried to allocate 9.00 GiB (GPU 0; 8.00 GiB total capacity; "
    numbers = "1.00 GiB already allocated; 6.00 GiB free; 1.10 GiB reserved in total by PyTorch)"

    result = call("post_mortem", {"content": message + numbers})

    assert result.structured_content["causes"][0]["name"] == "larger_than_gpu"
    assert "one tensor of 9.00 GiB was requested" in read_text(result)


def test_a_post_mortem_reads_no_file_of_the_server() -> None:
    """The command line names files; a tool brings the text along."""
    result = call("post_mortem", {"file": "/etc/passwd"})

    assert result.is_error
    assert "file" in read_text(result)
    assert "root:" not in read_text(result)
