def test_it_opens(ebb):
    assert ebb.memories() == []
