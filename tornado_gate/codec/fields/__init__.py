"""Declares the members of request bodies: marshmallow fields and schemas whose values are not converted.

marshmallow's own Boolean accepts 1 and "true", its Float accepts "5". The gateway forwards bodies unchanged, so it must refuse
values that need conversion. A schema of these fields is the one definition of a body. From it come the check (`check`), what
guards read (`make_body_shape`, `make_shape`), the ids of objects of an upstream (`make_reference_reader`), the values in the
texts of a form (`parse_form`), the API description (`server/openapi`) and the rows of the matrix of fields.
"""

from tornado_gate.codec.fields.forms import parse_form
from tornado_gate.codec.fields.kinds import (
    MAX_INTEGER,
    MAX_TOKENS,
    NO_EXAMPLE,
    Array,
    Boolean,
    Declared,
    File,
    FormText,
    FunctionField,
    Integer,
    Number,
    Object,
    ObjectIds,
    OneOf,
    Reference,
    String,
    Unchecked,
    Variants,
    describe_type,
    format_choices,
    get_schema,
)
from tornado_gate.codec.fields.reference_readers import make_reference_reader, make_request_reference_reader
from tornado_gate.codec.fields.schemas import BodySchema, check, first_fault, make_check
from tornado_gate.codec.fields.text_shapes import make_body_shape, make_shape

__all__ = [
    "MAX_INTEGER",
    "MAX_TOKENS",
    "NO_EXAMPLE",
    "Array",
    "BodySchema",
    "Boolean",
    "Declared",
    "File",
    "FormText",
    "FunctionField",
    "Integer",
    "Number",
    "Object",
    "ObjectIds",
    "OneOf",
    "Reference",
    "String",
    "Unchecked",
    "Variants",
    "check",
    "describe_type",
    "first_fault",
    "format_choices",
    "get_schema",
    "make_body_shape",
    "make_check",
    "make_reference_reader",
    "make_request_reference_reader",
    "make_shape",
    "parse_form",
]
