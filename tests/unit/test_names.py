"""Names as the model sees them, and the way back. The expectations were measured on the official engine, by the number
of tokens of its prefix."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from areole.errors import CallParseError
from areole.jsontext import parse, write
from areole.names import NO_NAMES, Names, expose_parameters, exposed_properties, exposed_tools, snake_case


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("setLights", "set_lights"), ("SetLights", "set_lights"), ("set-lights", "set_lights"),
        ("set.lights", "set_lights"), ("set__lights", "set_lights"), ("SET_LIGHTS", "set_lights"),
        ("HTTPServer", "http_server"), ("getURL", "get_url"), ("userIDs", "user_i_ds"),
        ("get3DModel", "get3_d_model"), ("OAuth2Token", "o_auth2_token"), ("a1B2c3", "a1_b2c3"),
        ("set lights now!", "set_lights_now"), ("_set", "set"), ("$set", "set"),
        ("setÉclair", "setÉclair"), ("灯On", "灯On"), ("a\u00a0B", "a\u00a0B"),
        ("!!!", "!!!"), ("__", "__"), ("", ""), ("aBCd", "a_b_cd"), ("iOS18Beta", "i_os18_beta"), ("X", "x"),
    ],
)  # fmt: skip
def test_snake_case(name: str, seen: str) -> None:
    assert snake_case(name) == seen


@given(st.text(alphabet="aZb0_-. é", max_size=12))
@settings(max_examples=200, deadline=None)
def test_snake_case_is_at_rest_after_one_step(name: str) -> None:
    assert snake_case(snake_case(name)) == snake_case(name)


def test_tools_that_become_one_are_all_numbered_in_alphabetical_order() -> None:
    assert exposed_tools(["setLights", "set_lights"]) == {"setLights": "set_lights__1", "set_lights": "set_lights__2"}
    assert exposed_tools(["set_lights", "setLights", "SetLights", "x"]) == {
        "SetLights": "set_lights__1", "setLights": "set_lights__2", "set_lights": "set_lights__3", "x": "x",
    }  # fmt: skip
    assert exposed_tools(["setLights", "setLights"]) == {"setLights": "set_lights"}


def test_properties_that_become_one_are_numbered_from_the_second() -> None:
    assert exposed_properties(["roomName", "room_name", "RoomName", "roomName"]) == {
        "roomName": "room_name", "room_name": "room_name__2", "RoomName": "room_name__3",
    }  # fmt: skip
    assert list(exposed_properties(["room_name__2", "roomName", "room_name"]).values()) == [
        "room_name_2", "room_name", "room_name__2",
    ]  # fmt: skip


A, S = "roomName", "room_name"


@pytest.mark.parametrize(
    "schema",
    [
        # @ is converted, # is not.
        '{"properties":{"@":{"type":"string"}},"required":["@","#x"]}',
        '{"properties":{"a":{}},"required":["#"]}',
        '{"properties":{"@":{}},"anyOf":[{"required":["#"]}]}',
        '{"properties":{"@":{}},"required":["@",5,{"#":"#"}]}',
        '{"properties":{"@":{}},"required":"#"}',
        '{"properties":{"@":{}},"required":["@"],"required":["#"]}',
        '{"properties":{"@":{}},"properties":{"#":{}}}',
        '{"properties":{"@":{"properties":{"@":{"items":{"items":{"properties":{"@":{}}}}}}}}}',
        '{"properties":{"a":{"items":{"properties":{"@":{}},"required":["@"]},"items":{"properties":{"@":{}}}}}}',
        '{"properties":{"a":{"items":[{"properties":{"#":{}}}]}}}',
        '{"properties":{"a":{"anyOf":[{"properties":{"@":{}},"required":["@"]}],"anyOf":{"properties":{"#":{}}}}}}',
        '{"properties":{"a":{"oneOf":[{"properties":{"@":{}}}],"allOf":[{"properties":{"@":{}}}]}}}',
        '{"properties":{"a":{"not":{"properties":{"@":{}}},"prefixItems":[{"properties":{"@":{}}}]}}}',
        '{"properties":{"a":{"if":{"properties":{"@":{}}},"then":{"properties":{"@":{}}},"else":{"properties":{"@":{}}}}}}',
        '{"properties":{"a":{"contains":{"properties":{"@":{}}},"propertyNames":{"properties":{"@":{}}}}}}',
        '{"properties":{},"additionalProperties":{"properties":{"@":{}}},"unevaluatedProperties":{"properties":{"@":{}}}}',
        '{"properties":{"a":{"patternProperties":{"#":{"properties":{"#":{}}}}}}}',
        '{"properties":{"@":{"$ref":"#/$defs/#"}},"$defs":{"#":{"properties":{"#":{}}}},"definitions":{"#":{}}}',
        '{"properties":{"a":{"default":{"properties":{"#":1}},"const":{"#":1},"examples":[{"properties":{"#":1}}]}}}',
        '{"properties":{"a":{"enum":["#"],"title":"#","description":"#"}}}',
        '{"properties":{"a":{"x-foo":{"properties":{"#":{}}}}}}',
        '{"properties":{"properties":{"properties":{"@":{}}},"@":{"#":{"type":"string"}}}}',
        '{"properties":{"@":5,"a":null}}',
        '{"properties":["#"]}',
        '{"properties":{"@":{}},"dependentRequired":{"@":["@","#y"]},"dependencies":{"#":["#"]}}',
        '{"properties":{"@":{}},"dependentSchemas":{"@":{"properties":{"@":{}}},"#y":{}}}',
        # No properties: the parameters themselves are the properties.
        '{"@":{"type":"string"},"a":{"#":{"type":"string"}}}',
        '{"@":"#","required":["@"]}',
        '{"@":["#"]}',
        '{"@":{"properties":{"@":{}},"required":["@"]},"properties":["#"]}',
        '{"@":{},"title":{"properties":{"#":{}}},"additionalProperties":false,"minLength":2,"anyOf":[{"properties":{"@":{}}}]}',
        '{"@":{},"properties":5,"properties":{"#":{}}}',
        '[{"properties":{"#":{}}}]',
        '"#"',
    ],
)  # fmt: skip
def test_where_property_names_are(schema: str) -> None:
    def with_names(converted: str) -> str:
        return schema.replace("#/", "\0").replace("@", converted).replace("#", A).replace("\0", "#/")

    tree, _ = expose_parameters(parse(with_names(A)))
    assert write(tree) == with_names(S)


def test_keys_beside_the_keywords_of_a_bare_map_are_properties() -> None:
    tree, names = expose_parameters(parse('{"minProperties":{},"readOnly":{},"minLength":{},"$comment":{}}'))
    assert write(tree) == '{"min_properties":{},"read_only":{},"minLength":{},"comment":{}}'
    assert names.restore({"min_properties": 1, "comment": 2}) == {"minProperties": 1, "$comment": 2}


NESTED = """{"properties": {
  "roomName": {"type": "object", "properties": {"lampId": {}, "lamp_id": {}}},
  "theList": {"items": {"properties": {"itemName": {"items": {"properties": {"deepName": {}}}}}}},
  "pair": {"prefixItems": [{"properties": {"firstOne": {}}}, {}], "items": {"properties": {"restOf": {}}}},
  "either": {"anyOf": [{"properties": {"leftSide": {}}}, {"properties": {"rightSide": {}, "leftSide": {}}}]},
  "free": {"additionalProperties": {"properties": {"anyName": {}}}}}}"""


def test_arguments_find_their_way_back_at_every_depth() -> None:
    _, names = expose_parameters(parse(NESTED))
    seen = {
        "room_name": {"lamp_id": 1, "lamp_id__2": 2},
        "the_list": [{"item_name": [{"deep_name": 1}]}, 5],
        "pair": [{"first_one": 1}, {"first_one": 1}, {"rest_of": 2}],
        "either": {"left_side": 1, "right_side": 2},
        "free": {"what_ever": {"any_name": 1}},
        "not_declared": {"room_name": 1},
    }
    assert names.restore(seen) == {
        "roomName": {"lampId": 1, "lamp_id": 2},
        "theList": [{"itemName": [{"deepName": 1}]}, 5],
        "pair": [{"firstOne": 1}, {"first_one": 1}, {"restOf": 2}],
        "either": {"leftSide": 1, "rightSide": 2},
        "free": {"what_ever": {"anyName": 1}},
        "not_declared": {"room_name": 1},
    }
    assert list(names.restore({"not_declared": 1, "room_name": 2})) == ["not_declared", "roomName"]  # type: ignore[call-overload]


def test_two_arguments_that_would_get_one_name_are_refused() -> None:
    _, names = expose_parameters(parse('{"properties":{"a":{"properties":{"roomName":{}}}}}'))
    with pytest.raises(CallParseError, match=r"a\.roomName is given twice"):
        names.restore({"a": {"room_name": 1, "roomName": 2}})


def test_merging_keeps_both_and_prefers_the_first() -> None:
    one = Names({"a": ("A", Names({"x": ("X", NO_NAMES)}))}, items=Names({"i": ("I", NO_NAMES)}))
    two = Names({"a": ("Other", Names({"y": ("Y", NO_NAMES)})), "b": ("B", NO_NAMES)}, prefix=(NO_NAMES,))
    both = one.merged(two)
    assert both.restore({"a": {"x": 1, "y": 2}, "b": 3}) == {"A": {"X": 1, "Y": 2}, "B": 3}
    assert both.restore([{"i": 1}, {"i": 1}]) == [{"i": 1}, {"I": 1}]
    assert one.merged(NO_NAMES) is one and NO_NAMES.merged(one) == one


@given(
    st.recursive(
        st.just({}),
        lambda s: st.dictionaries(
            st.sampled_from(["roomName", "room_name", "RoomName", "x"]), s.map(lambda p: {"properties": p}), max_size=3
        ),
        max_leaves=8,
    )
)
@settings(max_examples=150, deadline=None)
def test_a_value_for_every_property_goes_there_and_back(properties: dict[str, object]) -> None:
    """Filling each property of the exposed schema and restoring gives each property of the original schema."""

    def filled(schema: object) -> object:
        inner = schema.get("properties", {}) if isinstance(schema, dict) else {}
        return {name: filled(value) for name, value in inner.items()}

    original = {"properties": properties}
    tree, names = expose_parameters(parse(json.dumps(original)))
    assert names.restore(filled(json.loads(write(tree)))) == filled(original)
