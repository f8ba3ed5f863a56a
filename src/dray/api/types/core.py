"""The structs of core/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/core_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, LabelSelector, ObjectMeta, OwnerReference


class Volume(TypedDict, total=False):
    name: Required[str]
    hostPath: HostPathVolumeSource
    emptyDir: EmptyDirVolumeSource
    gcePersistentDisk: GCEPersistentDiskVolumeSource
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource
    gitRepo: GitRepoVolumeSource
    secret: SecretVolumeSource
    nfs: NFSVolumeSource
    iscsi: ISCSIVolumeSource
    glusterfs: GlusterfsVolumeSource
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource
    rbd: RBDVolumeSource
    flexVolume: FlexVolumeSource
    cinder: CinderVolumeSource
    cephfs: CephFSVolumeSource
    flocker: FlockerVolumeSource
    downwardAPI: DownwardAPIVolumeSource
    fc: FCVolumeSource
    azureFile: AzureFileVolumeSource
    configMap: ConfigMapVolumeSource
    vsphereVolume: VsphereVirtualDiskVolumeSource
    quobyte: QuobyteVolumeSource
    azureDisk: AzureDiskVolumeSource
    photonPersistentDisk: PhotonPersistentDiskVolumeSource
    projected: ProjectedVolumeSource
    portworxVolume: PortworxVolumeSource
    scaleIO: ScaleIOVolumeSource
    storageos: StorageOSVolumeSource
    csi: CSIVolumeSource
    ephemeral: EphemeralVolumeSource
    image: ImageVolumeSource


class VolumeSource(TypedDict, total=False):
    hostPath: HostPathVolumeSource
    emptyDir: EmptyDirVolumeSource
    gcePersistentDisk: GCEPersistentDiskVolumeSource
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource
    gitRepo: GitRepoVolumeSource
    secret: SecretVolumeSource
    nfs: NFSVolumeSource
    iscsi: ISCSIVolumeSource
    glusterfs: GlusterfsVolumeSource
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource
    rbd: RBDVolumeSource
    flexVolume: FlexVolumeSource
    cinder: CinderVolumeSource
    cephfs: CephFSVolumeSource
    flocker: FlockerVolumeSource
    downwardAPI: DownwardAPIVolumeSource
    fc: FCVolumeSource
    azureFile: AzureFileVolumeSource
    configMap: ConfigMapVolumeSource
    vsphereVolume: VsphereVirtualDiskVolumeSource
    quobyte: QuobyteVolumeSource
    azureDisk: AzureDiskVolumeSource
    photonPersistentDisk: PhotonPersistentDiskVolumeSource
    projected: ProjectedVolumeSource
    portworxVolume: PortworxVolumeSource
    scaleIO: ScaleIOVolumeSource
    storageos: StorageOSVolumeSource
    csi: CSIVolumeSource
    ephemeral: EphemeralVolumeSource
    image: ImageVolumeSource


class PersistentVolumeClaimVolumeSource(TypedDict, total=False):
    claimName: str
    readOnly: bool


class PersistentVolumeSource(TypedDict, total=False):
    gcePersistentDisk: GCEPersistentDiskVolumeSource
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource
    hostPath: HostPathVolumeSource
    glusterfs: GlusterfsPersistentVolumeSource
    nfs: NFSVolumeSource
    rbd: RBDPersistentVolumeSource
    iscsi: ISCSIPersistentVolumeSource
    cinder: CinderPersistentVolumeSource
    cephfs: CephFSPersistentVolumeSource
    fc: FCVolumeSource
    flocker: FlockerVolumeSource
    flexVolume: FlexPersistentVolumeSource
    azureFile: AzureFilePersistentVolumeSource
    vsphereVolume: VsphereVirtualDiskVolumeSource
    quobyte: QuobyteVolumeSource
    azureDisk: AzureDiskVolumeSource
    photonPersistentDisk: PhotonPersistentDiskVolumeSource
    portworxVolume: PortworxVolumeSource
    scaleIO: ScaleIOPersistentVolumeSource
    local: LocalVolumeSource
    storageos: StorageOSPersistentVolumeSource
    csi: CSIPersistentVolumeSource


class PersistentVolume(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PersistentVolumeSpec
    status: PersistentVolumeStatus


class PersistentVolumeSpec(TypedDict, total=False):
    capacity: Mapping[str, str]
    gcePersistentDisk: GCEPersistentDiskVolumeSource
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource
    hostPath: HostPathVolumeSource
    glusterfs: GlusterfsPersistentVolumeSource
    nfs: NFSVolumeSource
    rbd: RBDPersistentVolumeSource
    iscsi: ISCSIPersistentVolumeSource
    cinder: CinderPersistentVolumeSource
    cephfs: CephFSPersistentVolumeSource
    fc: FCVolumeSource
    flocker: FlockerVolumeSource
    flexVolume: FlexPersistentVolumeSource
    azureFile: AzureFilePersistentVolumeSource
    vsphereVolume: VsphereVirtualDiskVolumeSource
    quobyte: QuobyteVolumeSource
    azureDisk: AzureDiskVolumeSource
    photonPersistentDisk: PhotonPersistentDiskVolumeSource
    portworxVolume: PortworxVolumeSource
    scaleIO: ScaleIOPersistentVolumeSource
    local: LocalVolumeSource
    storageos: StorageOSPersistentVolumeSource
    csi: CSIPersistentVolumeSource
    accessModes: Sequence[str]
    claimRef: ObjectReference
    persistentVolumeReclaimPolicy: str
    storageClassName: str
    mountOptions: Sequence[str]
    volumeMode: str
    nodeAffinity: VolumeNodeAffinity
    volumeAttributesClassName: str


class VolumeNodeAffinity(TypedDict, total=False):
    required: NodeSelector


class PersistentVolumeStatus(TypedDict, total=False):
    phase: str
    message: str
    reason: str
    lastPhaseTransitionTime: str


class PersistentVolumeClaim(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec
    status: PersistentVolumeClaimStatus


class PersistentVolumeClaimSpec(TypedDict, total=False):
    accessModes: Sequence[str]
    selector: LabelSelector
    resources: VolumeResourceRequirements
    volumeName: str
    storageClassName: str
    volumeMode: str
    dataSource: TypedLocalObjectReference
    dataSourceRef: TypedObjectReference
    volumeAttributesClassName: str


class TypedObjectReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str
    namespace: str


class ModifyVolumeStatus(TypedDict, total=False):
    targetVolumeAttributesClassName: str
    status: str


class PersistentVolumeClaimCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str


class VolumeHealthCondition(TypedDict, total=False):
    status: Required[str]
    reason: Required[str]
    message: str


class VolumeHealthStatus(TypedDict, total=False):
    healthConditions: Sequence[VolumeHealthCondition]
    lastTransitionTime: str


class PodVolumeHealth(TypedDict, total=False):
    name: Required[str]
    healthConditions: Sequence[VolumeHealthCondition]
    lastTransitionTime: str


class PersistentVolumeClaimStatus(TypedDict, total=False):
    phase: str
    accessModes: Sequence[str]
    capacity: Mapping[str, str]
    conditions: Sequence[PersistentVolumeClaimCondition]
    allocatedResources: Mapping[str, str]
    resizeStatus: str
    allocatedResourceStatuses: Mapping[str, str]
    currentVolumeAttributesClassName: str
    modifyVolumeStatus: ModifyVolumeStatus
    healthStatus: VolumeHealthStatus


class HostPathVolumeSource(TypedDict, total=False):
    path: str
    type: str


class EmptyDirVolumeSource(TypedDict, total=False):
    medium: str
    sizeLimit: str
    mode: int


class GlusterfsVolumeSource(TypedDict, total=False):
    endpoints: str
    path: str
    readOnly: bool


class GlusterfsPersistentVolumeSource(TypedDict, total=False):
    endpoints: str
    path: str
    readOnly: bool
    endpointsNamespace: str


class RBDVolumeSource(TypedDict, total=False):
    monitors: Sequence[str]
    image: str
    fsType: str
    pool: str
    user: str
    keyring: str
    secretRef: LocalObjectReference
    readOnly: bool


class RBDPersistentVolumeSource(TypedDict, total=False):
    monitors: Sequence[str]
    image: str
    fsType: str
    pool: str
    user: str
    keyring: str
    secretRef: SecretReference
    readOnly: bool


class CinderVolumeSource(TypedDict, total=False):
    volumeID: str
    fsType: str
    readOnly: bool
    secretRef: LocalObjectReference


class CinderPersistentVolumeSource(TypedDict, total=False):
    volumeID: str
    fsType: str
    readOnly: bool
    secretRef: SecretReference


class CephFSVolumeSource(TypedDict, total=False):
    monitors: Sequence[str]
    path: str
    user: str
    secretFile: str
    secretRef: LocalObjectReference
    readOnly: bool


class SecretReference(TypedDict, total=False):
    name: str
    namespace: str


class CephFSPersistentVolumeSource(TypedDict, total=False):
    monitors: Sequence[str]
    path: str
    user: str
    secretFile: str
    secretRef: SecretReference
    readOnly: bool


class FlockerVolumeSource(TypedDict, total=False):
    datasetName: str
    datasetUUID: str


class GCEPersistentDiskVolumeSource(TypedDict, total=False):
    pdName: str
    fsType: str
    partition: int
    readOnly: bool


class QuobyteVolumeSource(TypedDict, total=False):
    registry: str
    volume: str
    readOnly: bool
    user: str
    group: str
    tenant: str


class FlexPersistentVolumeSource(TypedDict, total=False):
    driver: str
    fsType: str
    secretRef: SecretReference
    readOnly: bool
    options: Mapping[str, str]


class FlexVolumeSource(TypedDict, total=False):
    driver: str
    fsType: str
    secretRef: LocalObjectReference
    readOnly: bool
    options: Mapping[str, str]


class AWSElasticBlockStoreVolumeSource(TypedDict, total=False):
    volumeID: str
    fsType: str
    partition: int
    readOnly: bool


class GitRepoVolumeSource(TypedDict, total=False):
    repository: str
    revision: str
    directory: str


class SecretVolumeSource(TypedDict, total=False):
    secretName: str
    items: Sequence[KeyToPath]
    defaultMode: int
    optional: bool
    defaultUser: int


class SecretProjection(TypedDict, total=False):
    name: str
    items: Sequence[KeyToPath]
    optional: bool


class NFSVolumeSource(TypedDict, total=False):
    server: str
    path: str
    readOnly: bool


class ISCSIVolumeSource(TypedDict, total=False):
    targetPortal: str
    iqn: str
    lun: int
    iscsiInterface: str
    fsType: str
    readOnly: bool
    portals: Sequence[str]
    chapAuthDiscovery: bool
    chapAuthSession: bool
    secretRef: LocalObjectReference
    initiatorName: str


class ISCSIPersistentVolumeSource(TypedDict, total=False):
    targetPortal: str
    iqn: str
    lun: int
    iscsiInterface: str
    fsType: str
    readOnly: bool
    portals: Sequence[str]
    chapAuthDiscovery: bool
    chapAuthSession: bool
    secretRef: SecretReference
    initiatorName: str


class FCVolumeSource(TypedDict, total=False):
    targetWWNs: Sequence[str]
    lun: int
    fsType: str
    readOnly: bool
    wwids: Sequence[str]


class AzureFileVolumeSource(TypedDict, total=False):
    secretName: str
    shareName: str
    readOnly: bool


class AzureFilePersistentVolumeSource(TypedDict, total=False):
    secretName: str
    shareName: str
    readOnly: bool
    secretNamespace: str


class VsphereVirtualDiskVolumeSource(TypedDict, total=False):
    volumePath: str
    fsType: str
    storagePolicyName: str
    storagePolicyID: str


class PhotonPersistentDiskVolumeSource(TypedDict, total=False):
    pdID: str
    fsType: str


class AzureDiskVolumeSource(TypedDict, total=False):
    diskName: str
    diskURI: str
    cachingMode: str
    fsType: str
    readOnly: bool
    kind: str


class PortworxVolumeSource(TypedDict, total=False):
    volumeID: str
    fsType: str
    readOnly: bool


class ScaleIOVolumeSource(TypedDict, total=False):
    gateway: str
    system: str
    secretRef: LocalObjectReference
    sslEnabled: bool
    protectionDomain: str
    storagePool: str
    storageMode: str
    volumeName: str
    fsType: str
    readOnly: bool


class ScaleIOPersistentVolumeSource(TypedDict, total=False):
    gateway: str
    system: str
    secretRef: SecretReference
    sslEnabled: bool
    protectionDomain: str
    storagePool: str
    storageMode: str
    volumeName: str
    fsType: str
    readOnly: bool


class StorageOSVolumeSource(TypedDict, total=False):
    volumeName: str
    volumeNamespace: str
    fsType: str
    readOnly: bool
    secretRef: LocalObjectReference


class StorageOSPersistentVolumeSource(TypedDict, total=False):
    volumeName: str
    volumeNamespace: str
    fsType: str
    readOnly: bool
    secretRef: ObjectReference


class ConfigMapVolumeSource(TypedDict, total=False):
    name: str
    items: Sequence[KeyToPath]
    defaultMode: int
    optional: bool
    defaultUser: int


class ConfigMapProjection(TypedDict, total=False):
    name: str
    items: Sequence[KeyToPath]
    optional: bool


class ServiceAccountTokenProjection(TypedDict, total=False):
    audience: str
    expirationSeconds: int
    path: str
    user: int


class ClusterTrustBundleProjection(TypedDict, total=False):
    name: str
    signerName: str
    labelSelector: LabelSelector
    optional: bool
    path: str
    user: int


class PodCertificateProjection(TypedDict, total=False):
    signerName: str
    keyType: str
    maxExpirationSeconds: int
    credentialBundlePath: str
    keyPath: str
    certificateChainPath: str
    userAnnotations: Mapping[str, str]
    user: int


class ProjectedVolumeSource(TypedDict, total=False):
    sources: Sequence[VolumeProjection]
    defaultMode: int
    defaultUser: int


class VolumeProjection(TypedDict, total=False):
    secret: SecretProjection
    downwardAPI: DownwardAPIProjection
    configMap: ConfigMapProjection
    serviceAccountToken: ServiceAccountTokenProjection
    clusterTrustBundle: ClusterTrustBundleProjection
    podCertificate: PodCertificateProjection


class KeyToPath(TypedDict, total=False):
    key: Required[str]
    path: Required[str]
    mode: int
    user: int


class LocalVolumeSource(TypedDict, total=False):
    path: str
    fsType: str


class CSIPersistentVolumeSource(TypedDict, total=False):
    driver: str
    volumeHandle: str
    readOnly: bool
    fsType: str
    volumeAttributes: Mapping[str, str]
    controllerPublishSecretRef: SecretReference
    nodeStageSecretRef: SecretReference
    nodePublishSecretRef: SecretReference
    controllerExpandSecretRef: SecretReference
    nodeExpandSecretRef: SecretReference


class CSIVolumeSource(TypedDict, total=False):
    driver: str
    readOnly: bool
    fsType: str
    volumeAttributes: Mapping[str, str]
    nodePublishSecretRef: LocalObjectReference


class EphemeralVolumeSource(TypedDict, total=False):
    volumeClaimTemplate: PersistentVolumeClaimTemplate


class PersistentVolumeClaimTemplate(TypedDict, total=False):
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec


class ContainerPort(TypedDict, total=False):
    name: str
    hostPort: int
    containerPort: Required[int]
    protocol: str
    hostIP: str


class VolumeMount(TypedDict, total=False):
    name: Required[str]
    readOnly: bool
    recursiveReadOnly: str
    mountPath: Required[str]
    subPath: str
    mountPropagation: str
    subPathExpr: str
    bindMountOptions: Sequence[str]


class VolumeDevice(TypedDict, total=False):
    name: Required[str]
    devicePath: Required[str]


class EnvVar(TypedDict, total=False):
    name: Required[str]
    value: str
    valueFrom: EnvVarSource


class EnvVarSource(TypedDict, total=False):
    fieldRef: ObjectFieldSelector
    resourceFieldRef: ResourceFieldSelector
    configMapKeyRef: ConfigMapKeySelector
    secretKeyRef: SecretKeySelector
    fileKeyRef: FileKeySelector


class FileKeySelector(TypedDict, total=False):
    volumeName: str
    path: str
    key: str
    optional: bool


class ObjectFieldSelector(TypedDict, total=False):
    apiVersion: str
    fieldPath: str


class ResourceFieldSelector(TypedDict, total=False):
    containerName: str
    resource: str
    divisor: str


class ConfigMapKeySelector(TypedDict, total=False):
    name: str
    key: str
    optional: bool


class SecretKeySelector(TypedDict, total=False):
    name: str
    key: str
    optional: bool


class EnvFromSource(TypedDict, total=False):
    prefix: str
    configMapRef: ConfigMapEnvSource
    secretRef: SecretEnvSource


class ConfigMapEnvSource(TypedDict, total=False):
    name: str
    optional: bool


class SecretEnvSource(TypedDict, total=False):
    name: str
    optional: bool


class HTTPHeader(TypedDict, total=False):
    name: Required[str]
    value: Required[str]


class HTTPGetAction(TypedDict, total=False):
    path: str
    port: int | str
    host: str
    scheme: str
    httpHeaders: Sequence[HTTPHeader]
    protocol: str


class TCPSocketAction(TypedDict, total=False):
    port: int | str
    host: str


class GRPCAction(TypedDict, total=False):
    port: int
    service: str
    mode: str


class ExecAction(TypedDict, total=False):
    command: Sequence[str]


class SleepAction(TypedDict, total=False):
    seconds: int


class Probe(TypedDict, total=False):
    exec: ExecAction
    httpGet: HTTPGetAction
    tcpSocket: TCPSocketAction
    grpc: GRPCAction
    initialDelaySeconds: int
    timeoutSeconds: int
    periodSeconds: int
    successThreshold: int
    failureThreshold: int
    terminationGracePeriodSeconds: int


class ContainerResizePolicy(TypedDict, total=False):
    resourceName: Required[str]
    restartPolicy: Required[str]


class Capabilities(TypedDict, total=False):
    add: Sequence[str]
    drop: Sequence[str]


class ResourceRequirements(TypedDict, total=False):
    limits: Mapping[str, str]
    requests: Mapping[str, str]
    claims: Sequence[ResourceClaim]


class VolumeResourceRequirements(TypedDict, total=False):
    limits: Mapping[str, str]
    requests: Mapping[str, str]


class ResourceClaim(TypedDict, total=False):
    name: Required[str]
    request: str


class Container(TypedDict, total=False):
    name: Required[str]
    image: str
    command: Sequence[str]
    args: Sequence[str]
    workingDir: str
    ports: Sequence[ContainerPort]
    envFrom: Sequence[EnvFromSource]
    env: Sequence[EnvVar]
    resources: ResourceRequirements
    resizePolicy: Sequence[ContainerResizePolicy]
    restartPolicy: str
    restartPolicyRules: Sequence[ContainerRestartRule]
    volumeMounts: Sequence[VolumeMount]
    volumeDevices: Sequence[VolumeDevice]
    livenessProbe: Probe
    readinessProbe: Probe
    startupProbe: Probe
    lifecycle: Lifecycle
    terminationMessagePath: str
    terminationMessagePolicy: str
    imagePullPolicy: str
    securityContext: SecurityContext
    stdin: bool
    stdinOnce: bool
    tty: bool


class ProbeHandler(TypedDict, total=False):
    exec: ExecAction
    httpGet: HTTPGetAction
    tcpSocket: TCPSocketAction
    grpc: GRPCAction


class LifecycleHandler(TypedDict, total=False):
    exec: ExecAction
    httpGet: HTTPGetAction
    tcpSocket: TCPSocketAction
    sleep: SleepAction


class Lifecycle(TypedDict, total=False):
    postStart: LifecycleHandler
    preStop: LifecycleHandler
    stopSignal: str


class ContainerStateWaiting(TypedDict, total=False):
    reason: str
    message: str


class ContainerStateRunning(TypedDict, total=False):
    startedAt: str


class ContainerStateTerminated(TypedDict, total=False):
    exitCode: int
    signal: int
    reason: str
    message: str
    startedAt: str
    finishedAt: str
    containerID: str


class ContainerState(TypedDict, total=False):
    waiting: ContainerStateWaiting
    running: ContainerStateRunning
    terminated: ContainerStateTerminated


class ContainerStatus(TypedDict, total=False):
    name: Required[str]
    state: ContainerState
    lastState: ContainerState
    ready: Required[bool]
    restartCount: Required[int]
    image: Required[str]
    imageID: Required[str]
    containerID: str
    started: bool
    allocatedResources: Mapping[str, str]
    resources: ResourceRequirements
    volumeMounts: Sequence[VolumeMountStatus]
    user: ContainerUser
    allocatedResourcesStatus: Sequence[ResourceStatus]
    stopSignal: str


class ResourceStatus(TypedDict, total=False):
    name: Required[str]
    resources: Sequence[ResourceHealth]


class ResourceHealth(TypedDict, total=False):
    resourceID: Required[str]
    health: str
    message: str


class ContainerUser(TypedDict, total=False):
    linux: LinuxContainerUser


class LinuxContainerUser(TypedDict, total=False):
    uid: int
    gid: int
    supplementalGroups: Sequence[int]


class PodCondition(TypedDict, total=False):
    type: Required[str]
    observedGeneration: int
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str


class VolumeMountStatus(TypedDict, total=False):
    name: Required[str]
    mountPath: Required[str]
    readOnly: bool
    recursiveReadOnly: str
    volumeStatus: VolumeStatus


class VolumeStatus(TypedDict, total=False):
    image: ImageVolumeStatus


class ImageVolumeStatus(TypedDict, total=False):
    imageRef: str


class ContainerRestartRule(TypedDict, total=False):
    action: str
    exitCodes: ContainerRestartRuleOnExitCodes


class ContainerRestartRuleOnExitCodes(TypedDict, total=False):
    operator: str
    values: Sequence[int]


class NodeSelector(TypedDict, total=False):
    nodeSelectorTerms: Sequence[NodeSelectorTerm]


class NodeSelectorTerm(TypedDict, total=False):
    matchExpressions: Sequence[NodeSelectorRequirement]
    matchFields: Sequence[NodeSelectorRequirement]


class NodeSelectorRequirement(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: Sequence[str]


class TopologySelectorTerm(TypedDict, total=False):
    matchLabelExpressions: Sequence[TopologySelectorLabelRequirement]


class TopologySelectorLabelRequirement(TypedDict, total=False):
    key: Required[str]
    values: Required[Sequence[str]]


class Affinity(TypedDict, total=False):
    nodeAffinity: NodeAffinity
    podAffinity: PodAffinity
    podAntiAffinity: PodAntiAffinity


class PodAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: Sequence[PodAffinityTerm]
    preferredDuringSchedulingIgnoredDuringExecution: Sequence[WeightedPodAffinityTerm]


class PodAntiAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: Sequence[PodAffinityTerm]
    preferredDuringSchedulingIgnoredDuringExecution: Sequence[WeightedPodAffinityTerm]


class WeightedPodAffinityTerm(TypedDict, total=False):
    weight: Required[int]
    podAffinityTerm: Required[PodAffinityTerm]


class PodAffinityTerm(TypedDict, total=False):
    labelSelector: LabelSelector
    namespaces: Sequence[str]
    topologyKey: str
    namespaceSelector: LabelSelector
    matchLabelKeys: Sequence[str]
    mismatchLabelKeys: Sequence[str]


class NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector
    preferredDuringSchedulingIgnoredDuringExecution: Sequence[PreferredSchedulingTerm]


class PreferredSchedulingTerm(TypedDict, total=False):
    weight: Required[int]
    preference: Required[NodeSelectorTerm]


class Taint(TypedDict, total=False):
    key: Required[str]
    value: str
    effect: Required[str]
    timeAdded: str


class Toleration(TypedDict, total=False):
    key: str
    operator: str
    value: str
    effect: str
    tolerationSeconds: int


class PodReadinessGate(TypedDict, total=False):
    conditionType: Required[str]


class PodSpec(TypedDict, total=False):
    volumes: Sequence[Volume]
    initContainers: Sequence[Container]
    containers: Sequence[Container]
    ephemeralContainers: Sequence[EphemeralContainer]
    restartPolicy: str
    terminationGracePeriodSeconds: int
    activeDeadlineSeconds: int
    dnsPolicy: str
    nodeSelector: Mapping[str, str]
    serviceAccountName: str
    serviceAccount: str
    automountServiceAccountToken: bool
    nodeName: str
    hostNetwork: bool
    hostPID: bool
    hostIPC: bool
    shareProcessNamespace: bool
    securityContext: PodSecurityContext
    imagePullSecrets: Sequence[LocalObjectReference]
    hostname: str
    subdomain: str
    affinity: Affinity
    schedulerName: str
    tolerations: Sequence[Toleration]
    hostAliases: Sequence[HostAlias]
    priorityClassName: str
    priority: int
    dnsConfig: PodDNSConfig
    readinessGates: Sequence[PodReadinessGate]
    runtimeClassName: str
    enableServiceLinks: bool
    preemptionPolicy: str
    overhead: Mapping[str, str]
    topologySpreadConstraints: Sequence[TopologySpreadConstraint]
    setHostnameAsFQDN: bool
    os: PodOS
    hostUsers: bool
    schedulingGates: Sequence[PodSchedulingGate]
    resourceClaims: Sequence[PodResourceClaim]
    resources: ResourceRequirements
    hostnameOverride: str
    schedulingGroup: PodSchedulingGroup
    evictionResponders: Sequence[EvictionResponder]


class PodResourceClaim(TypedDict, total=False):
    name: Required[str]
    source: ClaimSource
    resourceClaimName: str
    resourceClaimTemplateName: str


class PodResourceClaimStatus(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str


class PodExtendedResourceClaimStatus(TypedDict, total=False):
    requestMappings: Sequence[ContainerExtendedResourceRequest]
    resourceClaimName: str


class ContainerExtendedResourceRequest(TypedDict, total=False):
    containerName: Required[str]
    resourceName: Required[str]
    requestName: Required[str]


class PodOS(TypedDict, total=False):
    name: str


class PodSchedulingGate(TypedDict, total=False):
    name: Required[str]


class PodSchedulingGroup(TypedDict, total=False):
    podGroupName: str


class TopologySpreadConstraint(TypedDict, total=False):
    maxSkew: Required[int]
    topologyKey: Required[str]
    whenUnsatisfiable: Required[str]
    labelSelector: LabelSelector
    minDomains: int
    nodeAffinityPolicy: str
    nodeTaintsPolicy: str
    matchLabelKeys: Sequence[str]


class HostAlias(TypedDict, total=False):
    ip: Required[str]
    hostnames: Sequence[str]


class PodSecurityContext(TypedDict, total=False):
    seLinuxOptions: SELinuxOptions
    windowsOptions: WindowsSecurityContextOptions
    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
    supplementalGroups: Sequence[int]
    supplementalGroupsPolicy: str
    fsGroup: int
    sysctls: Sequence[Sysctl]
    fsGroupChangePolicy: str
    seccompProfile: SeccompProfile
    appArmorProfile: AppArmorProfile
    seLinuxChangePolicy: str


class SeccompProfile(TypedDict, total=False):
    type: str
    localhostProfile: str


class AppArmorProfile(TypedDict, total=False):
    type: str
    localhostProfile: str


class PodDNSConfig(TypedDict, total=False):
    nameservers: Sequence[str]
    searches: Sequence[str]
    options: Sequence[PodDNSConfigOption]


class PodDNSConfigOption(TypedDict, total=False):
    name: str
    value: str


class PodIP(TypedDict, total=False):
    ip: Required[str]


class HostIP(TypedDict, total=False):
    ip: Required[str]


class EphemeralContainerCommon(TypedDict, total=False):
    name: str
    image: str
    command: Sequence[str]
    args: Sequence[str]
    workingDir: str
    ports: Sequence[ContainerPort]
    envFrom: Sequence[EnvFromSource]
    env: Sequence[EnvVar]
    resources: ResourceRequirements
    resizePolicy: Sequence[ContainerResizePolicy]
    restartPolicy: str
    restartPolicyRules: Sequence[ContainerRestartRule]
    volumeMounts: Sequence[VolumeMount]
    volumeDevices: Sequence[VolumeDevice]
    livenessProbe: Probe
    readinessProbe: Probe
    startupProbe: Probe
    lifecycle: Lifecycle
    terminationMessagePath: str
    terminationMessagePolicy: str
    imagePullPolicy: str
    securityContext: SecurityContext
    stdin: bool
    stdinOnce: bool
    tty: bool


class EphemeralContainer(TypedDict, total=False):
    name: Required[str]
    image: str
    command: Sequence[str]
    args: Sequence[str]
    workingDir: str
    ports: Sequence[ContainerPort]
    envFrom: Sequence[EnvFromSource]
    env: Sequence[EnvVar]
    resources: ResourceRequirements
    resizePolicy: Sequence[ContainerResizePolicy]
    restartPolicy: str
    restartPolicyRules: Sequence[ContainerRestartRule]
    volumeMounts: Sequence[VolumeMount]
    volumeDevices: Sequence[VolumeDevice]
    livenessProbe: Probe
    readinessProbe: Probe
    startupProbe: Probe
    lifecycle: Lifecycle
    terminationMessagePath: str
    terminationMessagePolicy: str
    imagePullPolicy: str
    securityContext: SecurityContext
    stdin: bool
    stdinOnce: bool
    tty: bool
    targetContainerName: str


class EvictionResponder(TypedDict, total=False):
    name: Required[str]
    priority: Required[int]


class PodStatus(TypedDict, total=False):
    observedGeneration: int
    phase: str
    conditions: Sequence[PodCondition]
    message: str
    reason: str
    nominatedNodeName: str
    hostIP: str
    hostIPs: Sequence[HostIP]
    podIP: str
    podIPs: Sequence[PodIP]
    startTime: str
    initContainerStatuses: Sequence[ContainerStatus]
    containerStatuses: Sequence[ContainerStatus]
    qosClass: str
    ephemeralContainerStatuses: Sequence[ContainerStatus]
    resize: str
    resourceClaimStatuses: Sequence[PodResourceClaimStatus]
    extendedResourceClaimStatus: PodExtendedResourceClaimStatus
    allocatedResources: Mapping[str, str]
    resources: ResourceRequirements
    nodeAllocatableResourceClaimStatuses: Sequence[NodeAllocatableResourceClaimStatus]
    volumeHealth: Sequence[PodVolumeHealth]


class Pod(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus


class PodTemplateSpec(TypedDict, total=False):
    metadata: ObjectMeta
    spec: PodSpec


class PodTemplate(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    template: PodTemplateSpec


class ReplicationControllerSpec(TypedDict, total=False):
    replicas: int
    minReadySeconds: int
    selector: Mapping[str, str]
    template: PodTemplateSpec


class ReplicationControllerStatus(TypedDict, total=False):
    replicas: int
    fullyLabeledReplicas: int
    readyReplicas: int
    availableReplicas: int
    observedGeneration: int
    conditions: Sequence[ReplicationControllerCondition]


class ReplicationControllerCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class ReplicationController(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ReplicationControllerSpec
    status: ReplicationControllerStatus


class SessionAffinityConfig(TypedDict, total=False):
    clientIP: ClientIPConfig


class ClientIPConfig(TypedDict, total=False):
    timeoutSeconds: int


class ServiceStatus(TypedDict, total=False):
    loadBalancer: LoadBalancerStatus
    conditions: Sequence[Condition]


class LoadBalancerStatus(TypedDict, total=False):
    ingress: Sequence[LoadBalancerIngress]


class LoadBalancerIngress(TypedDict, total=False):
    ip: str
    hostname: str
    ipMode: str
    ports: Sequence[PortStatus]


class ServiceSpec(TypedDict, total=False):
    ports: Sequence[ServicePort]
    selector: Mapping[str, str]
    clusterIP: str
    clusterIPs: Sequence[str]
    type: str
    externalIPs: Sequence[str]
    sessionAffinity: str
    loadBalancerIP: str
    loadBalancerSourceRanges: Sequence[str]
    externalName: str
    externalTrafficPolicy: str
    healthCheckNodePort: int
    publishNotReadyAddresses: bool
    sessionAffinityConfig: SessionAffinityConfig
    ipFamilies: Sequence[str]
    ipFamilyPolicy: str
    allocateLoadBalancerNodePorts: bool
    loadBalancerClass: str
    internalTrafficPolicy: str
    trafficDistribution: str


class ServicePort(TypedDict, total=False):
    name: str
    protocol: str
    appProtocol: str
    port: Required[int]
    targetPort: int | str
    nodePort: int


class Service(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ServiceSpec
    status: ServiceStatus


class ServiceAccount(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    secrets: Sequence[ObjectReference]
    imagePullSecrets: Sequence[LocalObjectReference]
    automountServiceAccountToken: bool


class Endpoints(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    subsets: Sequence[EndpointSubset]


class EndpointSubset(TypedDict, total=False):
    addresses: Sequence[EndpointAddress]
    notReadyAddresses: Sequence[EndpointAddress]
    ports: Sequence[EndpointPort]


class EndpointAddress(TypedDict, total=False):
    ip: Required[str]
    hostname: str
    nodeName: str
    targetRef: ObjectReference


class EndpointPort(TypedDict, total=False):
    name: str
    port: Required[int]
    protocol: str
    appProtocol: str


class NodeSpec(TypedDict, total=False):
    podCIDR: str
    podCIDRs: Sequence[str]
    providerID: str
    unschedulable: bool
    taints: Sequence[Taint]
    configSource: NodeConfigSource
    externalID: str
    podPreemptionPolicy: NodePodPreemptionPolicy


class NodePodPreemptionPolicy(TypedDict, total=False):
    disableResizePreemption: Sequence[str]


class NodeConfigSource(TypedDict, total=False):
    configMap: ConfigMapNodeConfigSource


class ConfigMapNodeConfigSource(TypedDict, total=False):
    namespace: str
    name: str
    uid: str
    resourceVersion: str
    kubeletConfigKey: str


class DaemonEndpoint(TypedDict, total=False):
    Port: int


class NodeDaemonEndpoints(TypedDict, total=False):
    kubeletEndpoint: DaemonEndpoint


class NodeRuntimeHandlerFeatures(TypedDict, total=False):
    recursiveReadOnlyMounts: bool
    userNamespaces: bool


class NodeRuntimeHandler(TypedDict, total=False):
    name: str
    features: NodeRuntimeHandlerFeatures


class NodeFeatures(TypedDict, total=False):
    supplementalGroupsPolicy: bool


class NodeSystemInfo(TypedDict, total=False):
    machineID: str
    systemUUID: str
    bootID: str
    kernelVersion: str
    osImage: str
    containerRuntimeVersion: str
    kubeletVersion: str
    kubeProxyVersion: str
    operatingSystem: str
    architecture: str
    swap: NodeSwapStatus
    runningInUserNamespace: bool


class NodeSwapStatus(TypedDict, total=False):
    capacity: int


class NodeConfigStatus(TypedDict, total=False):
    assigned: NodeConfigSource
    active: NodeConfigSource
    lastKnownGood: NodeConfigSource
    error: str


class NodeStatus(TypedDict, total=False):
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    phase: str
    conditions: Sequence[NodeCondition]
    addresses: Sequence[NodeAddress]
    daemonEndpoints: NodeDaemonEndpoints
    nodeInfo: NodeSystemInfo
    images: Sequence[ContainerImage]
    volumesInUse: Sequence[str]
    volumesAttached: Sequence[AttachedVolume]
    config: NodeConfigStatus
    runtimeHandlers: Sequence[NodeRuntimeHandler]
    features: NodeFeatures
    declaredFeatures: Sequence[str]


class AttachedVolume(TypedDict, total=False):
    name: Required[str]
    devicePath: Required[str]


class AvoidPods(TypedDict, total=False):
    preferAvoidPods: Sequence[PreferAvoidPodsEntry]


class PreferAvoidPodsEntry(TypedDict, total=False):
    podSignature: Required[PodSignature]
    evictionTime: str
    reason: str
    message: str


class PodSignature(TypedDict, total=False):
    podController: OwnerReference


class ContainerImage(TypedDict, total=False):
    names: Sequence[str]
    sizeBytes: int


class NodeCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastHeartbeatTime: str
    lastTransitionTime: str
    reason: str
    message: str


class NodeAddress(TypedDict, total=False):
    type: Required[str]
    address: Required[str]


class Node(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: NodeSpec
    status: NodeStatus


class NamespaceSpec(TypedDict, total=False):
    finalizers: Sequence[str]


class NamespaceStatus(TypedDict, total=False):
    phase: str
    conditions: Sequence[NamespaceCondition]


class NamespaceCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class Namespace(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: NamespaceSpec
    status: NamespaceStatus


class Binding(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    target: ObjectReference


class Preconditions(TypedDict, total=False):
    uid: str


class PodLogOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    container: str
    follow: bool
    previous: bool
    sinceSeconds: int
    sinceTime: str
    timestamps: bool
    tailLines: int
    limitBytes: int
    insecureSkipTLSVerifyBackend: bool
    stream: str


class PodAttachOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    container: str


class PodExecOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    container: str
    command: Sequence[str]


class PodPortForwardOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    ports: Sequence[int]


class PodProxyOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    path: str


class NodeProxyOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    path: str


class ServiceProxyOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    path: str


class ObjectReference(TypedDict, total=False):
    kind: str
    namespace: str
    name: str
    uid: str
    apiVersion: str
    resourceVersion: str
    fieldPath: str


class LocalObjectReference(TypedDict, total=False):
    name: str


class TypedLocalObjectReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str


class SerializedReference(TypedDict, total=False):
    kind: str
    apiVersion: str
    reference: ObjectReference


class EventSource(TypedDict, total=False):
    component: str
    host: str


class Event(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    involvedObject: ObjectReference
    reason: str
    message: str
    source: EventSource
    firstTimestamp: str
    lastTimestamp: str
    count: int
    type: str
    eventTime: str
    series: EventSeries
    action: str
    related: ObjectReference
    reportingComponent: str
    reportingInstance: str


class EventSeries(TypedDict, total=False):
    count: int
    lastObservedTime: str


class LimitRangeItem(TypedDict, total=False):
    type: Required[str]
    max: Mapping[str, str]
    min: Mapping[str, str]
    default: Mapping[str, str]
    defaultRequest: Mapping[str, str]
    maxLimitRequestRatio: Mapping[str, str]


class LimitRangeSpec(TypedDict, total=False):
    limits: Sequence[LimitRangeItem]


class LimitRange(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: LimitRangeSpec


class ResourceQuotaSpec(TypedDict, total=False):
    hard: Mapping[str, str]
    scopes: Sequence[str]
    scopeSelector: ScopeSelector


class ScopeSelector(TypedDict, total=False):
    matchExpressions: Sequence[ScopedResourceSelectorRequirement]


class ScopedResourceSelectorRequirement(TypedDict, total=False):
    scopeName: Required[str]
    operator: Required[str]
    values: Sequence[str]


class ResourceQuotaStatus(TypedDict, total=False):
    hard: Mapping[str, str]
    used: Mapping[str, str]


class ResourceQuota(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceQuotaSpec
    status: ResourceQuotaStatus


class Secret(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    immutable: bool
    data: Mapping[str, str]
    stringData: Mapping[str, str]
    type: str


class ConfigMap(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    immutable: bool
    data: Mapping[str, str]
    binaryData: Mapping[str, str]


class ComponentCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    message: str
    error: str


class ComponentStatus(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    conditions: Sequence[ComponentCondition]


class DownwardAPIVolumeSource(TypedDict, total=False):
    items: Sequence[DownwardAPIVolumeFile]
    defaultMode: int
    defaultUser: int


class DownwardAPIVolumeFile(TypedDict, total=False):
    path: Required[str]
    fieldRef: ObjectFieldSelector
    resourceFieldRef: ResourceFieldSelector
    mode: int
    user: int


class DownwardAPIProjection(TypedDict, total=False):
    items: Sequence[DownwardAPIVolumeFile]


class SecurityContext(TypedDict, total=False):
    capabilities: Capabilities
    privileged: bool
    seLinuxOptions: SELinuxOptions
    windowsOptions: WindowsSecurityContextOptions
    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
    readOnlyRootFilesystem: bool
    allowPrivilegeEscalation: bool
    procMount: str
    seccompProfile: SeccompProfile
    appArmorProfile: AppArmorProfile


class SELinuxOptions(TypedDict, total=False):
    user: str
    role: str
    type: str
    level: str


class WindowsSecurityContextOptions(TypedDict, total=False):
    gmsaCredentialSpecName: str
    gmsaCredentialSpec: str
    runAsUserName: str
    hostProcess: bool


class RangeAllocation(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    range: str
    data: str


class Sysctl(TypedDict, total=False):
    name: Required[str]
    value: Required[str]


class PortStatus(TypedDict, total=False):
    port: Required[int]
    protocol: Required[str]
    error: str


class ImageVolumeSource(TypedDict, total=False):
    reference: str
    pullPolicy: str


class NodeAllocatableResourceClaimStatus(TypedDict, total=False):
    resourceClaimName: Required[str]
    containers: Sequence[str]
    resources: Mapping[str, str]
    mapping: Sequence[NodeAllocatableMappedResources]
    overhead: Sequence[NodeAllocatableOverheadResources]


class NodeAllocatableMappedResources(TypedDict, total=False):
    name: Required[str]
    quantity: Required[str]


class NodeAllocatableOverheadResources(TypedDict, total=False):
    name: Required[str]
    perPod: str
    perContainer: str


class PodStatusResult(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    status: PodStatus


class ClaimSource(TypedDict, total=False):
    resourceClaimName: str
    resourceClaimTemplateName: str
