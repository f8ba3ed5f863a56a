"""storage.k8s.io: classes of storage, drivers of storage, and what they say about nodes and volumes.

No controller here makes or attaches volumes; the kinds are there for those that do, and for whoever waits for them.
"""

from __future__ import annotations

from dray.api.groups.storage import csi, volumeattachment, volumeattributesclass
from dray.api.groups.storage.storageclass import STORAGE_CLASS

KINDS = (
    STORAGE_CLASS,
    volumeattachment.KIND,
    volumeattributesclass.KIND,
    csi.CSI_DRIVER,
    csi.CSI_NODE,
    csi.CSI_STORAGE_CAPACITY,
)
