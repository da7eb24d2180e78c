"""Schemas of the bodies that change provider entries and models. The check of the new file is the check of their values.

Members that the schemas do not name are keys of conf, or settings of a plugin, which the plugin checks.
"""

from __future__ import annotations

from marshmallow import INCLUDE, Schema

from tornado_gate.accounts.key_checks import LONGEST_WORD
from tornado_gate.codec.fields import Array, Boolean, Integer, Object, String
from tornado_gate.config.secret_store import LONGEST_SECRET
from tornado_gate.server.admin.bodies import AdminSchema

_LONGEST_ADDRESS = 2000
_MOST_TARGETS = 100


class EntrySchema(Schema):
    """Members of an entry of conf. `version`: the version of the file for which the change is meant; another one is a 409."""

    class Meta:
        unknown = INCLUDE

    version = String(filled=True, longest=100)


class ProviderChangeSchema(EntrySchema):
    """Changes of a provider entry: `base_url`, `api_key`, other keys of conf, and settings of its plugin. Null removes one."""

    base_url = String(longest=_LONGEST_ADDRESS, allow_none=True)
    api_key = String(filled=True, longest=LONGEST_SECRET, allow_none=True)


class NewProviderSchema(EntrySchema):
    """A new provider entry. Further members are keys of conf such as `timeouts`, and settings of its plugin."""

    name = String(required=True, filled=True, longest=LONGEST_WORD)
    plugin = String(required=True, filled=True, longest=LONGEST_WORD)
    base_url = String(filled=True, longest=_LONGEST_ADDRESS)
    api_key = String(filled=True, longest=LONGEST_SECRET)


class PluginChangeSchema(EntrySchema):
    """Changes of a plugin's entry: `on`, `required`, `models` and `operations`, and settings of the plugin. Null removes one."""

    on = Boolean()


class TargetSchema(AdminSchema):
    """A target of a model."""

    provider = String(required=True, filled=True, longest=LONGEST_WORD)
    model = String(filled=True, longest=LONGEST_WORD)
    weight = Integer(least=0)


class ModelChangeSchema(EntrySchema):
    """Changes of a model. Null removes a member."""

    provider = String(filled=True, longest=LONGEST_WORD, allow_none=True)
    model = String(filled=True, longest=LONGEST_WORD, allow_none=True)
    targets = Array(Object(TargetSchema), most=_MOST_TARGETS, allow_none=True)


class NewModelSchema(EntrySchema):
    """A new model: with `provider`, and `model` if its upstream name differs, or with `targets`.

    Further members are keys of conf.
    """

    name = String(required=True, filled=True, longest=LONGEST_WORD)
    provider = String(filled=True, longest=LONGEST_WORD)
    model = String(filled=True, longest=LONGEST_WORD)
    targets = Array(Object(TargetSchema), most=_MOST_TARGETS)


class ConnectionTestSchema(AdminSchema):
    """`model`: the upstream model of a short chat, if the plugin cannot list the vendor's models."""

    model = String(filled=True, longest=LONGEST_WORD)
