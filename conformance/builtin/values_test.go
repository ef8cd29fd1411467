package builtin

// This file is what members are set to where any value does not do.

// labelled is what selectors and templates agree on.
var labelled = m{"a": "b"}

// values are by definition and member, by member alone, and by definition. «N» is the number of the item of a list.
var values = map[string]any{
	// Definitions of no members.
	"Quantity": "1", "IntOrString": 1, "Time": "2026-01-01T00:00:00Z", "MicroTime": "2026-01-01T00:00:00.000000Z", "Duration": "1s",
	"RawExtension": m{"a": "b"}, "FieldsV1": m{"f:a": m{}},
	// Those whose members depend on each other.
	"PersistentVolumeClaim.metadata": m{"name": "n«N»", "labels": labelled},
	"LabelSelector":                  m{"matchLabels": labelled, "matchExpressions": []m{{"key": "a", "operator": "In", "values": []string{"b", "c"}}}},
	"ObjectMeta":                     m{"labels": labelled, "annotations": m{"c": "d"}},
	"NodeSelectorRequirement": each{m{"key": "k«N»", "operator": "In", "values": []string{"a", "b"}}, m{"key": "k«N»", "operator": "Exists"},
		m{"key": "k«N»", "operator": "Gt", "values": []string{"1"}}, m{"key": "k«N»", "operator": "NotIn", "values": []string{"a"}}, m{"key": "k«N»", "operator": "DoesNotExist"}},
	"NodeSelectorTerm.matchFields": []m{{"key": "metadata.name", "operator": "In", "values": []string{"n"}}},
	"Toleration": each{m{"key": "k«N»", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 1}, m{"key": "k«N»", "operator": "Exists", "effect": "NoSchedule"},
		m{"key": "k«N»", "operator": "Exists", "effect": "PreferNoSchedule"}},
	"TopologySpreadConstraint": each{
		m{"maxSkew": 1, "minDomains": 2, "topologyKey": "k«N»", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore", "labelSelector": m{"matchLabels": labelled}, "matchLabelKeys": []string{"x"}},
		m{"maxSkew": 2, "topologyKey": "k«N»", "whenUnsatisfiable": "ScheduleAnyway", "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "labelSelector": m{"matchLabels": labelled}}},
	"PodAffinityTerm.matchLabelKeys": []string{"x"}, "PodAffinityTerm.mismatchLabelKeys": []string{"y"},
	"SeccompProfile":              each{m{"type": "Localhost", "localhostProfile": "p"}, m{"type": "RuntimeDefault"}, m{"type": "Unconfined"}},
	"AppArmorProfile":             each{m{"type": "Localhost", "localhostProfile": "p"}, m{"type": "RuntimeDefault"}, m{"type": "Unconfined"}},
	"ObjectFieldSelector":         m{"apiVersion": "v1", "fieldPath": "metadata.name"},
	"ResourceFieldSelector":       m{"containerName": "n0", "resource": "limits.cpu", "divisor": "1"},
	"ResourceRequirements":        m{"limits": m{"cpu": "2", "memory": "1Gi"}, "requests": m{"cpu": "1", "memory": "1Gi"}, "claims": []m{{"name": "n0", "request": "n0"}}},
	"DeploymentStrategy":          each{m{"type": "RollingUpdate", "rollingUpdate": m{"maxSurge": 1, "maxUnavailable": "25%"}}, m{"type": "Recreate"}},
	"DaemonSetUpdateStrategy":     each{m{"type": "RollingUpdate", "rollingUpdate": m{"maxSurge": 0, "maxUnavailable": "25%"}}, m{"type": "OnDelete"}},
	"StatefulSetUpdateStrategy":   each{m{"type": "RollingUpdate", "rollingUpdate": m{"partition": 1, "maxUnavailable": "25%"}}, m{"type": "OnDelete"}},
	"MetricTarget":                each{m{"type": "Utilization", "averageUtilization": 50}, m{"type": "AverageValue", "averageValue": "5"}, m{"type": "Value", "value": "5"}},
	"ResourceMetricSource.target": m{"type": "Utilization", "averageUtilization": 50}, "ContainerResourceMetricSource.target": m{"type": "AverageValue", "averageValue": "5"},
	"PodsMetricSource.target": m{"type": "AverageValue", "averageValue": "5"}, "ObjectMetricSource.target": m{"type": "Value", "value": "5"}, "ExternalMetricSource.target": m{"type": "Value", "value": "5"},
	"MetricSpec.type":                      each{"ContainerResource", "External", "Object", "Pods", "Resource"},
	"MetricStatus.type":                    each{"ContainerResource", "External", "Object", "Pods", "Resource"},
	"PodFailurePolicyRule":                 each{m{"action": "FailJob", "onExitCodes": m{"containerName": "n0", "operator": "In", "values": []int{1, 2}}}, m{"action": "Ignore", "onPodConditions": []m{{"type": "T", "status": "True"}}}},
	"SuccessPolicyRule":                    m{"succeededCount": 1, "succeededIndexes": "0"},
	"PodDisruptionBudgetSpec.minAvailable": each{1, "10%"},

	// Pods.
	"PodSpec.os": each{nil, m{"name": "linux"}}, "PodSpec.hostNetwork": each{false, true}, "PodSpec.hostUsers": each{true, false}, "PodSpec.hostPID": each{true, false}, "PodSpec.shareProcessNamespace": each{false, true},
	// As the classes of [run.surroundings], which admission plugins compare with.
	"PodSpec.runtimeClassName": "n0", "PodSpec.priorityClassName": each{"n0", "n1"}, "PodSpec.priority": each{1, 2}, "PodSpec.preemptionPolicy": each{"PreemptLowerPriority", "Never"},
	"PodSpec.automountServiceAccountToken": each{false, true}, // a pod with an injected volume is not the one that was sent
	"PodSpec.overhead":                     m{"cpu": "1"}, "PodSpec.nodeSelector": m{"k": "v"}, "PodSpec.restartPolicy": each{"Always", "Never", "OnFailure"}, "PodSpec.serviceAccount": "n0", "PodSpec.serviceAccountName": "n0",
	"PodSpec.resources":        m{"limits": m{"cpu": "20", "memory": "10Gi"}, "requests": m{"cpu": "10", "memory": "10Gi"}},
	"PodDNSConfig.nameservers": []string{"1.1.1.1"}, "PodDNSConfig.searches": []string{"a.b"}, "HostAlias.ip": "1.1.1.«N»", "HostAlias.hostnames": []string{"a.b", "c.d"}, "PodReadinessGate.conditionType": "a.b/c«N»",
	"PodSecurityContext.sysctls": []m{{"name": "kernel.shm_rmid_forced", "value": "1"}}, "PodSecurityContext.fsGroupChangePolicy": each{"Always", "OnRootMismatch"},
	"Container.ports":         []m{{"containerPort": 80, "hostIP": "1.1.1.1", "hostPort": 80, "name": "http", "protocol": "TCP"}, {"containerPort": 81, "name": "dns", "protocol": "UDP"}},
	"Container.restartPolicy": "Never", "SecurityContext.privileged": true, "SecurityContext.procMount": "Default", "SecurityContext.runAsNonRoot": true, "Capabilities.add": []string{"A"}, "Capabilities.drop": []string{"B"},
	"ContainerResizePolicy.resourceName": each{"cpu", "memory"}, "ContainerResizePolicy.restartPolicy": "NotRequired", "Probe.successThreshold": 1, "Lifecycle.stopSignal": "SIGTERM", "ContainerStatus.stopSignal": "SIGTERM",
	"ContainerRestartRule": m{"action": "Restart", "exitCodes": m{"operator": "In", "values": []int{1, 2}}},
	"HTTPGetAction.path":   "/p", "HTTPHeader.name": "X-«N»", "EnvVar.name": "E«N»", "EnvFromSource.prefix": "P_", "FileKeySelector": m{"key": "K", "optional": true, "path": "p", "volumeName": "n3"},
	"VolumeMount.name": "n2", "VolumeMount.mountPath": "/m«N»", "VolumeMount.mountPropagation": each{"None", "HostToContainer"}, "VolumeMount.recursiveReadOnly": "Disabled", "VolumeMount.subPath": "s", "VolumeMount.subPathExpr": "$(E0)",
	"VolumeDevice.name": "n«N»", "VolumeDevice.devicePath": "/d«N»", "WindowsSecurityContextOptions.hostProcess": false, "WindowsSecurityContextOptions.runAsUserName": "U",
	"PodSchedulingGate.name": "a.b/c«N»",

	"PodSecurityContext.seLinuxChangePolicy": each{"MountOption", "Recursive"}, "AzureDiskVolumeSource.diskURI": "https://a.blob.core.windows.net/b/c.vhd", "AzureDiskVolumeSource.kind": "Shared", "SleepAction.seconds": 0,
	"PodSpec.hostIPC": each{false, true}, "PodSpec.terminationGracePeriodSeconds": 30,

	// Volumes.
	"KeyToPath.path": "p«N»", "DownwardAPIVolumeFile.path": "p«N»", "ClusterTrustBundleProjection.path": "pc", "ServiceAccountTokenProjection.path": "ps", "ServiceAccountTokenProjection.expirationSeconds": 600,
	"NFSVolumeSource.path": "/p", "HostPathVolumeSource.path": "/p", "CephFSVolumeSource.path": "/p", "CephFSPersistentVolumeSource.path": "/p", "GlusterfsVolumeSource.path": "p", "LocalVolumeSource.path": "/p",
	"ISCSIVolumeSource.iqn": "iqn.2001-04.com.example:x", "ISCSIPersistentVolumeSource.iqn": "iqn.2001-04.com.example:x", "ISCSIVolumeSource.initiatorName": "iqn.2001-04.com.example:y", "ISCSIPersistentVolumeSource.initiatorName": "iqn.2001-04.com.example:y",
	"QuobyteVolumeSource.registry": "h:1", "PodCertificateProjection": m{"signerName": "x.io/y", "keyType": "ECDSAP256", "maxExpirationSeconds": 86400, "credentialBundlePath": "b", "userAnnotations": m{"x.io/z": "v"}},
	"PersistentVolumeClaimSpec.accessModes": each{[]string{"ReadWriteOnce", "ReadOnlyMany"}, []string{"ReadWriteOncePod"}}, "PersistentVolumeSpec.accessModes": each{[]string{"ReadWriteOnce", "ReadOnlyMany"}, []string{"ReadWriteOncePod"}},
	"VolumeResourceRequirements": m{"limits": m{"storage": "2Gi"}, "requests": m{"storage": "1Gi"}}, "PersistentVolumeSpec.capacity": m{"storage": "1Gi"},
	"PersistentVolumeClaimSpec.dataSource": m{"apiGroup": "a.io", "kind": "K", "name": "n"}, "PersistentVolumeClaimSpec.dataSourceRef": m{"apiGroup": "a.io", "kind": "K", "name": "n"},
	"PersistentVolumeClaimSpec.volumeMode": each{"Filesystem", "Block"}, "PersistentVolumeSpec.claimRef": m{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1", "fieldPath": "f"},
	"CSIPersistentVolumeSource.driver": "a.io", "CSIVolumeSource.driver": "a.io", "FlexVolumeSource.driver": "a/b", "FlexPersistentVolumeSource.driver": "a/b",

	// Core.
	"ServiceSpec.clusterIP": "10.0.0.9", "ServiceSpec.clusterIPs": []string{"10.0.0.9"}, "ServiceSpec.externalIPs": []string{"192.0.2.7"}, "ServiceSpec.externalName": "a.io", "ServiceSpec.externalTrafficPolicy": each{"Local", "Cluster"},
	"ServiceSpec.healthCheckNodePort": 30021, "ServiceSpec.ipFamilies": []string{"IPv4"}, "ServiceSpec.ipFamilyPolicy": "SingleStack", "ServiceSpec.loadBalancerClass": "a.io/b", "ServiceSpec.loadBalancerIP": "1.2.3.4",
	"ServiceSpec.loadBalancerSourceRanges": []string{"10.0.0.0/8"}, "ServiceSpec.trafficDistribution": each{"PreferClose", "PreferSameNode", "PreferSameZone"}, "ServiceSpec.type": each{"LoadBalancer", "NodePort", "ClusterIP", "ExternalName"},
	"ServicePort.appProtocol": "a.io/b", "ServiceSpec.sessionAffinity": "ClientIP", "ServiceSpec.selector": labelled,
	"EndpointAddress.ip": "10.0.1.«N»", "EndpointPort.appProtocol": "a.io/b", "NodeSpec.podCIDR": "10.1.0.0/24", "NodeSpec.podCIDRs": []string{"10.1.0.0/24"},
	"ResourceQuotaSpec.hard": m{"pods": "1"}, "ResourceQuotaSpec.scopes": []string{"NotTerminating"}, "ScopeSelector.matchExpressions": []m{{"scopeName": "PriorityClass", "operator": "In", "values": []string{"a"}}},
	"LimitRangeItem": each{m{"type": "Container", "max": m{"cpu": "4"}, "min": m{"cpu": "1"}, "default": m{"cpu": "3"}, "defaultRequest": m{"cpu": "2"}, "maxLimitRequestRatio": m{"cpu": "4"}},
		m{"type": "Pod", "max": m{"cpu": "4"}, "min": m{"cpu": "1"}, "maxLimitRequestRatio": m{"cpu": "4"}}},
	"ReplicationControllerSpec.selector": labelled, "Secret.type": "a.io/t", "Secret.data": m{"k": "dg=="}, "Secret.stringData": m{"l": "v"}, "ConfigMap.binaryData": m{"b": "dg=="}, "ConfigMap.data": m{"k": "v"},
	"Event.involvedObject": m{"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "1", "fieldPath": "f"}, "Event.type": each{"Normal", "Warning"},
	"Event.regarding": m{"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "1", "fieldPath": "f"}, "Event.reportingComponent": "x.io/y", "Event.reportingController": "x.io/y",

	"ConfigMapProjection.items": []m{{"key": "k", "path": "c0", "mode": 256}}, "SecretProjection.items": []m{{"key": "k", "path": "s0", "mode": 256}},
	"DownwardAPIProjection.items":                    []m{{"path": "d0", "mode": 256, "fieldRef": m{"fieldPath": "metadata.name"}}, {"path": "d1", "resourceFieldRef": m{"containerName": "n0", "resource": "limits.cpu", "divisor": "1"}}},
	"PersistentVolumeSpec.volumeAttributesClassName": nil,
	"VolumeAttachmentSource.inlineVolumeSpec":        m{"accessModes": []string{"ReadWriteOnce"}, "csi": m{"driver": "a.io", "volumeHandle": "h"}},
	"CSIDriverSpec.fsGroupPolicy":                    each{"File", "None"}, "CSIDriverSpec.volumeLifecycleModes": []string{"Persistent", "Ephemeral"}, "TokenRequest.expirationSeconds": 600, "DeviceClassSpec.extendedResourceName": "a.io/b",
	"UncountedTerminatedPods": m{"failed": []string{"f"}, "succeeded": []string{"s"}}, "PodCertificateRequestSpec.unverifiedUserAnnotations": m{"a.io/b": "c"},
	"DeviceConstraint": each{m{"requests": []string{"n0"}, "matchAttribute": "a.io/b"}, m{"requests": []string{"n0"}, "distinctAttribute": "a.io/c"}}, "DeviceClaimConfiguration.requests": []string{"n0"},
	"DeviceToleration":               each{m{"key": "a.b/c«N»", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 1}, m{"key": "a.b/c«N»", "operator": "Exists", "effect": "NoSchedule"}},
	"ExactDeviceRequest.adminAccess": false, "DeviceSubRequest.allocationMode": "ExactCount", "DeviceRequestAllocationResult.adminAccess": false, "ResourceSliceSpec.nodeSelector": m{"nodeSelectorTerms": []m{{"matchExpressions": []m{{"key": "k", "operator": "In", "values": []string{"a"}}}}}},

	// Other groups.
	"PodIP.ip": "10.0.2.«N»", "HostIP.ip": "10.0.3.«N»", "PodStatus.podIP": "10.0.2.0", "PodStatus.hostIP": "10.0.3.0", "PodStatus.hostIPs": []m{{"ip": "10.0.3.0"}}, "PodStatus.podIPs": []m{{"ip": "10.0.2.0"}},
	"NodeStatus.declaredFeatures": []string{"A", "B/c"}, "NodeStatus.allocatable": m{"cpu": "1"}, "NodeStatus.capacity": m{"cpu": "2", "pods": "3"},
	"PersistentVolumeClaimStatus.allocatedResourceStatuses": m{"storage": "ControllerResizeInProgress"}, "PersistentVolumeClaimStatus.allocatedResources": m{"storage": "1Gi"}, "PersistentVolumeClaimStatus.capacity": m{"storage": "1Gi"},
	"ResourceQuotaStatus.hard": m{"pods": "1"}, "ResourceQuotaStatus.used": m{"pods": "1"}, "EventSeries.count": 2, "CrossVersionObjectReference.apiVersion": "apps/v1", "IngressClassSpec.controller": "x.io/y",
	"HTTPIngressPath": each{m{"path": "/p", "pathType": "Prefix", "backend": m{"service": m{"name": "s", "port": m{"number": 80}}}}, m{"path": "/q", "pathType": "Exact", "backend": m{"service": m{"name": "s", "port": m{"name": "http"}}}},
		m{"path": "/r", "pathType": "ImplementationSpecific", "backend": m{"resource": m{"apiGroup": "a.io", "kind": "K", "name": "n"}}}},
	"IngressLoadBalancerIngress.ip": "192.0.2.1«N»", "LoadBalancerIngress.ip": "192.0.2.1«N»", "IPBlock": m{"cidr": "10.0.0.0/8", "except": []string{"10.1.0.0/16"}}, "ServiceCIDRSpec.cidrs": []string{"10.9.0.0/24"},
	"NetworkPolicyPort":         each{m{"protocol": "TCP", "port": 80, "endPort": 90}, m{"protocol": "UDP", "port": "dns"}},
	"EndpointSlice.addressType": "IPv4", "Endpoint.addresses": []string{"10.0.1.«N»"},
	"PolicyRule": each{m{"apiGroups": []string{"a.io"}, "resources": []string{"r"}, "resourceNames": []string{"n"}, "verbs": []string{"get"}}}, "Role.rules": []m{{"apiGroups": []string{"a.io"}, "resources": []string{"r"}, "resourceNames": []string{"n"}, "verbs": []string{"get"}}},
	"ClusterRole.rules":          []m{{"apiGroups": []string{"a.io"}, "resources": []string{"r"}, "resourceNames": []string{"n"}, "verbs": []string{"get"}}, {"nonResourceURLs": []string{"/x"}, "verbs": []string{"get"}}},
	"RoleRef":                    m{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
	"Subject":                    each{m{"kind": "ServiceAccount", "name": "s«N»", "namespace": "default"}, m{"kind": "User", "name": "u«N»", "apiGroup": "rbac.authorization.k8s.io"}},
	"LeaseSpec.leaseTransitions": 1, "LeaseSpec.strategy": "OldestEmulationVersion",
	"JobSpec.completionMode": "Indexed", "JobSpec.completions": 5, "JobSpec.parallelism": 2, "JobSpec.podReplacementPolicy": "Failed", "JobSpec.managedBy": "a.io/b", "JobSpec.backoffLimitPerIndex": 1, "JobSpec.maxFailedIndexes": 1, "JobSpec.manualSelector": true,
	"CronJobSpec.schedule": "*/5 * * * *", "CronJobSpec.timeZone": "Etc/UTC", "JobSpec.backoffLimit": 3,
	"StorageClass.allowedTopologies": []m{{"matchLabelExpressions": []m{{"key": "k", "values": []string{"v"}}}}}, "StorageClass.provisioner": "x.io/y", "CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds": 10,
	"CSINodeSpec.drivers": []m{{"name": "a.io", "nodeID": "i", "topologyKeys": []string{"k"}, "allocatable": m{"count": 1}}}, "PriorityClass.value": 10, "PriorityClass.globalDefault": false,
	"ValidatingAdmissionPolicySpec.validations": []m{{"expression": "true", "message": "m", "messageExpression": "'x'", "reason": "Invalid"}}, "ValidatingAdmissionPolicySpec.auditAnnotations": []m{{"key": "k", "valueExpression": "'x'"}},
	"ValidatingAdmissionPolicySpec.variables": []m{{"name": "v", "expression": "1"}}, "MutatingAdmissionPolicySpec.variables": []m{{"name": "v", "expression": "1"}},
	"MatchCondition": m{"name": "n«N»", "expression": "true"}, "ParamKind": m{"apiVersion": "v1", "kind": "ConfigMap"}, "MutatingAdmissionPolicySpec.mutations": []m{{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": "Object{}"}},
		{"patchType": "JSONPatch", "jsonPatch": m{"expression": "[JSONPatch{op: 'test', path: '/a', value: 'b'}]"}}},
	"RuleWithOperations":      m{"apiGroups": []string{"a.io"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE", "UPDATE"}, "resources": []string{"r"}, "scope": "Namespaced"},
	"NamedRuleWithOperations": m{"apiGroups": []string{"a.io"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE", "UPDATE"}, "resources": []string{"r"}, "resourceNames": []string{"n"}, "scope": "Namespaced"},
	"MutatingWebhook.name":    "n«N».b.c", "ValidatingWebhook.name": "n«N».b.c", "MutatingWebhook.admissionReviewVersions": []string{"v1"}, "ValidatingWebhook.admissionReviewVersions": []string{"v1"}, "MutatingWebhook.sideEffects": "None", "ValidatingWebhook.sideEffects": each{"None", "NoneOnDryRun"},
	"WebhookClientConfig.url": "https://a.io/x", "ServiceReference.path": "/p", "WebhookClientConfig.caBundle": "dg==",
	"ValidatingAdmissionPolicyBindingSpec.validationActions": each{[]string{"Deny", "Audit"}, []string{"Warn"}}, "ParamRef.parameterNotFoundAction": "Deny",
	"CertificateSigningRequestSpec.expirationSeconds": 600, "CertificateSigningRequestSpec.usages": []string{"digital signature"}, "CertificateSigningRequestSpec.signerName": "x.io/y",
	"RuntimeClass.handler": "h", "Overhead.podFixed": m{"cpu": "1"}, "Scheduling.nodeSelector": m{"k": "v"},
	"VolumeAttachmentSpec.attacher": "a.io", "PodDisruptionBudgetStatus.disruptedPods": m{"p": "2026-01-01T00:00:00Z"}, "PodDisruptionBudgetSpec.maxUnavailable": 1,
	"HPAScalingPolicy.periodSeconds": 60, "HorizontalPodAutoscalerSpec.maxReplicas": 5, "HPAScalingRules.tolerance": "0.1",
	"Condition.reason": "R", "Condition.type": "T«N»", "Condition.status": each{"True", "False", "Unknown"},
	"DeviceSelector.cel": m{"expression": "true"}, "ResourcePool": m{"name": "p", "generation": 1, "resourceSliceCount": 1}, "ResourceSliceSpec.driver": "x.io", "DeviceAttribute.version": "1.2.3", "DeviceTaint.key": "a.b/c", "DeviceTaint.effect": each{"NoSchedule", "NoExecute"},
	"ExactDeviceRequest.allocationMode": "ExactCount", "CounterSet": m{"name": "c«N»", "counters": m{"k": m{"value": "1"}}},
	"FlowSchemaSpec.distinguisherMethod": each{m{"type": "ByUser"}, m{"type": "ByNamespace"}}, "FlowSchemaSpec.matchingPrecedence": 100,
	"FlowSchemaSpec.rules":           []m{{"subjects": []m{{"kind": "User", "user": m{"name": "u"}}, {"kind": "Group", "group": m{"name": "g"}}, {"kind": "ServiceAccount", "serviceAccount": m{"name": "s", "namespace": "n"}}}, "resourceRules": []m{{"verbs": []string{"get"}, "apiGroups": []string{"a.io"}, "resources": []string{"r"}, "namespaces": []string{"n"}, "clusterScope": true}}, "nonResourceRules": []m{{"verbs": []string{"get"}, "nonResourceURLs": []string{"/x"}}}}},
	"PriorityLevelConfigurationSpec": m{"type": "Limited", "limited": m{"nominalConcurrencyShares": 5, "lendablePercent": 10, "borrowingLimitPercent": 20, "limitResponse": m{"type": "Queue", "queuing": m{"queues": 16, "handSize": 4, "queueLengthLimit": 10}}}},
}

// unions are members of which there can be one.
var unions = map[string][][]string{
	"Volume": {{"persistentVolumeClaim", "ephemeral", "configMap", "emptyDir", "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "downwardAPI", "fc", "flexVolume", "flocker",
		"gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume"}},
	"PersistentVolumeSpec": {{"hostPath", "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "local", "nfs",
		"photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"}},
	"VolumeProjection":             {{"clusterTrustBundle", "configMap", "downwardAPI", "podCertificate", "secret", "serviceAccountToken"}},
	"ClusterTrustBundleProjection": {{"name", "signerName"}},
	"FCVolumeSource":               {{"targetWWNs", "wwids"}},
	"DownwardAPIVolumeFile":        {{"fieldRef", "resourceFieldRef"}},
	"EnvVar":                       {{"value", "valueFrom"}},
	"EnvVarSource":                 {{"fieldRef", "secretKeyRef", "resourceFieldRef", "fileKeyRef", "configMapKeyRef"}},
	"EnvFromSource":                {{"configMapRef", "secretRef"}},
	"FlockerVolumeSource":          {{"datasetName", "datasetUUID"}},
	"LifecycleHandler":             {{"exec", "httpGet", "sleep", "tcpSocket"}},
	"Probe":                        {{"exec", "grpc", "httpGet", "tcpSocket"}},
	"PodResourceClaim":             {{"resourceClaimName", "resourceClaimTemplateName"}},
	"PodSpec":                      {{"nodeName", "schedulingGates"}, {"hostname", "hostnameOverride"}},
	"VolumeMount":                  {{"subPath", "subPathExpr"}},
	"MetricSpec":                   {{"containerResource", "external", "object", "pods", "resource"}},
	"MetricStatus":                 {{"containerResource", "external", "object", "pods", "resource"}},
	"PodDisruptionBudgetSpec":      {{"minAvailable", "maxUnavailable"}},
	"ServiceBackendPort":           {{"name", "number"}}, "IngressBackend": {{"service", "resource"}},
	"NetworkPolicyPeer": {{"podSelector", "ipBlock"}}, "WebhookClientConfig": {{"service", "url"}}, "DeviceRequest": {{"exactly", "firstAvailable"}}, "VolumeAttachmentSource": {{"persistentVolumeName", "inlineVolumeSpec"}},
	"NonResourcePolicyRule": {}, "ResourceSliceSpec": {{"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}, {"devices", "sharedCounters"}}, "Device": {{"nodeName", "nodeSelector", "allNodes"}},
	"DeviceAttribute": {{"string", "bool", "int", "version"}}, "CapacityRequestPolicy": {{"validValues", "validRange"}}, "ParamRef": {{"name", "selector"}},
	"VolumeClaimTemplate": {},
}

// lengths are those of lists, if it is not two.
var lengths = map[string]int{"Container.env": 10}

// offsets are numbers of first items.
var offsets = map[string]int{"PodSpec.initContainers": 10, "PodSpec.ephemeralContainers": 20, "EndpointSubset.notReadyAddresses": 10}

// unset are members that no object of the comparison has, with the reason.
var unset = map[string]string{
	"Endpoint.deprecatedTopology":              "dropped by v1, and counted as a change of what it drops",
	"PodSpec.ephemeralContainers":              "set by a subresource",
	"PersistentVolumeClaimStatus.healthStatus": "dropped, but not of claims in a template, whose status nobody reads",
}

// fixed are members of objects of a kind, by JSON pointer.
var fixed = map[string]m{
	"batch/jobs":     {"/spec/template/spec/restartPolicy": "Never", "/spec/selector": m{"matchLabels": labelled}},
	"batch/cronjobs": {"/spec/jobTemplate/spec/template/spec/restartPolicy": "Never", "/spec/jobTemplate/spec/selector": nil, "/spec/jobTemplate/spec/manualSelector": nil},
}

// signed are kinds whose specs have certificates, or requests of them, which are those of the least that there can be.
var signed = map[string]bool{"certificates.k8s.io/certificatesigningrequests": true, "certificates.k8s.io/clustertrustbundles": true, "certificates.k8s.io/podcertificaterequests": true}
