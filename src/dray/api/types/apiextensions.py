"""The structs of apiextensions/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/apiextensions_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta, Status


class CustomResourceDefinitionSpec(TypedDict, total=False):
    group: str
    names: CustomResourceDefinitionNames
    scope: str
    versions: Sequence[CustomResourceDefinitionVersion]
    conversion: CustomResourceConversion
    preserveUnknownFields: bool


class CustomResourceConversion(TypedDict, total=False):
    strategy: str
    webhook: WebhookConversion


class WebhookConversion(TypedDict, total=False):
    clientConfig: WebhookClientConfig
    conversionReviewVersions: Sequence[str]


class WebhookClientConfig(TypedDict, total=False):
    url: str
    service: ServiceReference
    caBundle: str


class ServiceReference(TypedDict, total=False):
    namespace: str
    name: str
    path: str
    port: int


class CustomResourceDefinitionVersion(TypedDict, total=False):
    name: Required[str]
    served: Required[bool]
    storage: Required[bool]
    deprecated: bool
    deprecationWarning: str
    schema: CustomResourceValidation
    subresources: CustomResourceSubresources
    additionalPrinterColumns: Sequence[CustomResourceColumnDefinition]
    selectableFields: Sequence[SelectableField]


class SelectableField(TypedDict, total=False):
    jsonPath: Required[str]


class CustomResourceColumnDefinition(TypedDict, total=False):
    name: Required[str]
    type: Required[str]
    format: str
    description: str
    priority: int
    jsonPath: Required[str]


class CustomResourceDefinitionNames(TypedDict, total=False):
    plural: str
    singular: str
    shortNames: Sequence[str]
    kind: str
    listKind: str
    categories: Sequence[str]


class CustomResourceDefinitionCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str
    observedGeneration: int


class CustomResourceDefinitionStatus(TypedDict, total=False):
    conditions: Sequence[CustomResourceDefinitionCondition]
    acceptedNames: CustomResourceDefinitionNames
    storedVersions: Sequence[str]
    observedGeneration: int


class CustomResourceDefinition(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: CustomResourceDefinitionSpec
    status: CustomResourceDefinitionStatus


class CustomResourceValidation(TypedDict, total=False):
    openAPIV3Schema: JSONSchemaProps


class CustomResourceSubresources(TypedDict, total=False):
    status: CustomResourceSubresourceStatus
    scale: CustomResourceSubresourceScale


class CustomResourceSubresourceScale(TypedDict, total=False):
    specReplicasPath: str
    statusReplicasPath: str
    labelSelectorPath: str


class ConversionReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    request: ConversionRequest
    response: ConversionResponse


class ConversionRequest(TypedDict, total=False):
    uid: str
    desiredAPIVersion: str
    objects: Sequence[Any]


class ConversionResponse(TypedDict, total=False):
    uid: str
    convertedObjects: Sequence[Any]
    result: Status


JSONSchemaProps = TypedDict(
    "JSONSchemaProps",
    {
        "id": "str",
        "$schema": "str",
        "$ref": "str",
        "description": "str",
        "type": "str",
        "format": "str",
        "title": "str",
        "default": "Any",
        "maximum": "float",
        "exclusiveMaximum": "bool",
        "minimum": "float",
        "exclusiveMinimum": "bool",
        "maxLength": "int",
        "minLength": "int",
        "pattern": "str",
        "maxItems": "int",
        "minItems": "int",
        "uniqueItems": "bool",
        "multipleOf": "float",
        "enum": "Sequence[Any]",
        "maxProperties": "int",
        "minProperties": "int",
        "required": "Sequence[str]",
        "items": "JSONSchemaProps | Sequence[JSONSchemaProps]",
        "allOf": "Sequence[JSONSchemaProps]",
        "oneOf": "Sequence[JSONSchemaProps]",
        "anyOf": "Sequence[JSONSchemaProps]",
        "not": "JSONSchemaProps",
        "properties": "Mapping[str, JSONSchemaProps]",
        "additionalProperties": "bool | JSONSchemaProps",
        "patternProperties": "Mapping[str, JSONSchemaProps]",
        "dependencies": "Mapping[str, JSONSchemaProps | Sequence[str]]",
        "additionalItems": "bool | JSONSchemaProps",
        "definitions": "Mapping[str, JSONSchemaProps]",
        "externalDocs": "ExternalDocumentation",
        "example": "Any",
        "nullable": "bool",
        "x-kubernetes-preserve-unknown-fields": "bool",
        "x-kubernetes-embedded-resource": "bool",
        "x-kubernetes-int-or-string": "bool",
        "x-kubernetes-list-map-keys": "Sequence[str]",
        "x-kubernetes-list-type": "str",
        "x-kubernetes-map-type": "str",
        "x-kubernetes-validations": "Sequence[ValidationRule]",
    },
    total=False,
)


class ValidationRule(TypedDict, total=False):
    rule: Required[str]
    message: str
    messageExpression: str
    reason: str
    fieldPath: str
    optionalOldSelf: bool


class ExternalDocumentation(TypedDict, total=False):
    description: str
    url: str


class CustomResourceSubresourceStatus(TypedDict, total=False):
    pass
