import pytest

from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.connection import resolve

LOCAL = ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fc00::1", "fec0::1"]
LOCAL += ["::ffff:10.1.2.3", "2002:a01:203::1", "64:ff9b::7f00:1", "240.0.0.1"]
NEVER = ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "ff02::1", "::", "::ffff:169.254.169.254"]
NEVER += ["64:ff9b::a9fe:a9fe"]
PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"]


def allowed(name_server, addresses, may_be_private=False):
    name_server["host"] = addresses
    try:
        return [where[0] for _, where in resolve("host", 80, may_be_private)]
    except BadImage:
        return []


@pytest.mark.parametrize("address", LOCAL + NEVER + PUBLIC)
def test_local_addresses_need_permission_and_some_are_never_allowed(name_server, address):
    assert allowed(name_server, [address]) == ([address] if address in PUBLIC else [])
    assert allowed(name_server, [address], may_be_private=True) == ([] if address in NEVER else [address])


def test_of_several_addresses_the_local_ones_are_left_out(name_server):
    assert allowed(name_server, ["127.0.0.1", *PUBLIC, "169.254.169.254"]) == PUBLIC
