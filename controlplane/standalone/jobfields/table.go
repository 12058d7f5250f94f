package jobfields

// The packages that act on fields.
const (
	registration = "controlplane/standalone"
	scheduling   = "controlplane/standalone/schedule"
	api          = "httpapi"
	launches     = "controlplane/standalone/cron"
	allocations  = "runners/alloc"
	artifacts    = "runners/artifact"
	checks       = "runners/check"
	disks        = "runners/watcher"
	environment  = "runners/taskenv"
	restarts     = "runners/restart"
	services     = "runners/registration"
	tasks        = "runners/task"
	templates    = "runners/template"
)

// What several fields have in common.
const (
	ownRecord   = "the control plane sets it, whatever is sent"
	noCSI       = "there are no CSI volumes"
	noVault     = "there is no Vault"
	noConsul    = "there is no Consul"
	noApart     = "it has no effect: the node and its control plane are never apart"
	obsolete    = "it is obsolete and has no effect"
	ofConsul    = "it is Consul's, and has no effect"
	hostAddress = "it has no effect: tasks have the machine's network and names"
)

// table is what becomes of each field, by the name of its type and its own.
var table = map[string]map[string]fate{
	"Job": {
		"Region": done(api), "Namespace": done(registration), "ID": done(registration), "Name": done(environment),
		"Type": done(scheduling), "Priority": done(scheduling), "Datacenters": done(scheduling), "NodePool": done(scheduling),
		"AllAtOnce":   moot("one scheduler decides at a time, so that no plan is placed in part because of another"),
		"Constraints": done(scheduling), "Affinities": done(scheduling), "Spreads": done(scheduling),
		"TaskGroups": done(scheduling), "Meta": done(environment),
		"Update": moved("TaskGroup.Update"), "Reschedule": moved("TaskGroup.ReschedulePolicy"), "Migrate": moved("TaskGroup.Migrate"),
		"Multiregion":      refused("there is one region"),
		"Periodic":         done(registration),
		"ParameterizedJob": done(registration),
		"UI":               moot("it is shown as it was sent"),
		"Stop":             done(registration), "ParentID": moot(ownRecord), "Payload": done(tasks),
		"Dispatched": moot(ownRecord), "DispatchIdempotencyToken": done(registration), "NomadTokenID": moot(ownRecord),
		"ConsulNamespace": refused(noConsul), "VaultNamespace": refused(noVault),
		"Status": moot(ownRecord), "StatusDescription": moot(ownRecord), "Stable": moot(ownRecord), "Version": moot(ownRecord),
		"SubmitTime": moot(ownRecord), "CreateIndex": moot(ownRecord), "ModifyIndex": moot(ownRecord),
		"JobModifyIndex": moot(ownRecord), "VersionTag": moot(ownRecord),
	},
	"PeriodicConfig": {
		"Enabled": done(registration), "ProhibitOverlap": done(registration), "Spec": done(launches), "Specs": done(launches),
		"SpecType": done(launches), "TimeZone": done(launches),
	},
	"ParameterizedJobConfig": {"Payload": done(registration), "MetaRequired": done(registration), "MetaOptional": done(registration)},
	"TaskGroup": {
		"Name": done(scheduling), "Count": done(scheduling), "Constraints": done(scheduling), "Tasks": done(scheduling),
		"Affinities": done(scheduling), "Spreads": done(scheduling),
		"Volumes":       done(scheduling),
		"RestartPolicy": done(restarts), "ReschedulePolicy": done(scheduling), "EphemeralDisk": done(scheduling),
		"Update": done(allocations), "Migrate": done(registration),
		"Networks": done(scheduling), "Meta": done(environment), "Services": done(services),
		"ShutdownDelay": done(allocations), "MaxRunDuration": done(allocations),
		"Disconnect": warned(noApart), "StopAfterClientDisconnect": warned(noApart),
		"MaxClientDisconnect": warned(noApart), "PreventRescheduleOnLost": warned(noApart),
		"Scaling": done(registration), "Consul": warned("it has no effect: " + noConsul),
	},
	"Task": {
		"Name": done(tasks), "Driver": done(tasks), "User": done(tasks), "Lifecycle": done(allocations), "Config": done(tasks),
		"Constraints": done(scheduling), "Affinities": done(scheduling), "Env": done(environment), "Services": done(services),
		"Resources": done(scheduling), "RestartPolicy": done(restarts), "Meta": done(environment), "KillTimeout": done(tasks),
		"LogConfig": done(tasks), "Artifacts": done(tasks), "Templates": done(tasks), "DispatchPayload": done(tasks),
		"Leader": done(allocations), "ShutdownDelay": done(tasks), "KillSignal": done(tasks),
		"Vault":           refused(noVault + ": the task would be given no token"),
		"Consul":          refused(noConsul + ": the task would be given no token"),
		"Secrets":         refused("there is nothing to read secrets from"),
		"VolumeMounts":    done(tasks),
		"CSIPluginConfig": refused(noCSI + ", and no plugins of them"),
		"Schedule":        refused("tasks run as long as their allocation: a schedule is not kept"),
		"Kind":            warned(ofConsul),
		"ScalingPolicies": warned("it has no effect: Nomad Enterprise's autoscaler alone scales the resources of tasks"),
		"Identity":        inside(), "Identities": inside(),
		"Actions": done(api),
	},
	"Service": {
		"Name": done(services), "PortLabel": done(services), "AddressMode": done(services), "Address": done(services), "Checks": done(checks),
		"CheckRestart": done(checks), "TaskName": done(checks), "OnUpdate": done(checks), "Provider": done(checks),
		"Tags": done(services), "CanaryTags": done(services), "EnableTagOverride": warned(ofConsul), "Meta": warned(ofConsul),
		"CanaryMeta": warned(ofConsul), "TaggedAddresses": warned(ofConsul), "Weights": warned(ofConsul),
		"Connect":  judged(allocations),
		"Identity": warned(ofConsul), "Cluster": warned(ofConsul).but("default"), "Kind": refused("gateways are Consul's: " + noConsul),
	},
	"ServiceCheck": {
		"Name": done(checks), "Type": done(checks), "Command": done(checks), "Args": done(checks), "Path": done(checks),
		"Protocol": done(checks), "PortLabel": done(checks), "Expose": done(checks), "AddressMode": done(checks),
		"Interval": done(checks), "Timeout": done(checks), "TLSServerName": done(checks), "TLSSkipVerify": done(checks),
		"Header": done(checks), "Method": done(checks), "Body": done(checks), "CheckRestart": done(checks), "TaskName": done(checks),
		"SuccessBeforePassing": done(checks), "FailuresBeforeCritical": done(checks), "FailuresBeforeWarning": done(checks), "OnUpdate": done(checks),
		"InitialStatus": warned(ofConsul), "Advertise": warned(ofConsul), "Notes": moot("it is for people"),
		"GRPCService": moot("checks of the type grpc are refused"), "GRPCUseTLS": moot("checks of the type grpc are refused"),
	},
	"CheckRestart":    {"Limit": done(checks), "Grace": done(checks), "IgnoreWarnings": done(checks)},
	"TaskLifecycle":   {"Hook": done(allocations), "Sidecar": done(allocations)},
	"Constraint":      {"LTarget": done(scheduling), "RTarget": done(scheduling), "Operand": done(scheduling)},
	"Affinity":        {"LTarget": done(scheduling), "RTarget": done(scheduling), "Operand": done(scheduling), "Weight": done(scheduling)},
	"Spread":          {"Attribute": done(scheduling), "Weight": done(scheduling), "SpreadTarget": done(scheduling)},
	"SpreadTarget":    {"Value": done(scheduling), "Percent": done(scheduling)},
	"RequestedDevice": {"Name": done(scheduling), "Count": done(scheduling), "Constraints": done(scheduling), "Affinities": done(scheduling)},
	"Resources": {
		"CPU": done(scheduling), "MemoryMB": done(scheduling), "MemoryMaxMB": done(scheduling),
		"Devices": done(scheduling), "Networks": done(scheduling),
		"Cores": done(scheduling), "NUMA": inside(),
		"DiskMB": warned(obsolete + ": use the group's ephemeral_disk"), "IOPS": warned(obsolete),
		"SecretsMB": done(scheduling),
	},
	"NUMAResource": {
		"Affinity": warned("it has no effect: the cores that a task gets are the lowest free ones").but("none"),
		"Devices":  warned("it has no effect: devices are given without regard to cores"),
	},
	"NetworkResource": {
		"Mode": done(scheduling), "ReservedPorts": done(scheduling), "DynamicPorts": done(scheduling),
		"Device": warned(hostAddress), "CIDR": warned(hostAddress), "IP": warned(hostAddress), "Hostname": done(allocations),
		"DNS":   done(tasks),
		"MBits": warned(obsolete), "CNI": refused("there are no CNI networks"),
	},
	"DNSConfig": {"Servers": done(tasks), "Searches": done(tasks), "Options": done(tasks)},
	"Port": {
		"Label": done(scheduling), "Value": done(scheduling), "To": done(scheduling), "IgnoreCollision": done(scheduling),
		"HostNetwork": done(scheduling),
	},
	"LogConfig": {
		"MaxFiles": done(tasks), "MaxFileSizeMB": done(tasks), "Disabled": done(tasks),
		"Enabled": warned(obsolete + ": use disabled"),
	},
	"WorkloadIdentity": {
		"Env": done(tasks), "File": done(tasks), "Filepath": done(tasks), "Name": done(registration),
		"Audience": done(registration), "ServiceName": warned(ofConsul), "TTL": done(registration),
		"ChangeMode": done(tasks), "ChangeSignal": done(tasks),
		"ExtraClaims": refused("namespaces define no claims for tokens"),
	},
	"RestartPolicy": {
		"Interval": done(restarts), "Attempts": done(restarts), "Delay": done(restarts), "Mode": done(restarts),
		"RenderTemplates": moot("templates are rendered at every start"),
	},
	"ReschedulePolicy": {
		"Attempts": done(scheduling), "Interval": done(scheduling), "Delay": done(scheduling), "DelayFunction": done(scheduling),
		"MaxDelay": done(scheduling), "Unlimited": done(scheduling),
	},
	"ScalingPolicy": {
		"Min": done(registration), "Max": done(registration), "Type": done(registration),
		"Policy": judged(api), "Enabled": done(api),
		"ID": moot(ownRecord), "Namespace": moot(ownRecord), "Target": moot(ownRecord),
		"CreateIndex": moot(ownRecord), "ModifyIndex": moot(ownRecord),
	},
	"MigrateStrategy": {
		"MaxParallel": done(registration), "HealthCheck": done(allocations),
		"MinHealthyTime": done(allocations), "HealthyDeadline": done(allocations),
	},
	"Action": {"Name": done(api), "Command": done(api), "Args": done(api)},
	"VolumeRequest": {
		"Name": moot("the group has it by its name"), "Type": moot("it is host: others are refused"), "Source": done(scheduling), "ReadOnly": done(scheduling),
		"Sticky": done(scheduling), "PerAlloc": done(scheduling), "MountOptions": refused("host volumes cannot have mount options"),
		"AccessMode": done(scheduling), "AttachmentMode": done(scheduling),
	},
	"VolumeMount": {
		"Volume": done(tasks), "Destination": done(tasks), "ReadOnly": done(tasks), "PropagationMode": refused("mounts are private").but("private"),
		"SELinuxLabel": refused("volumes are mounted with the labels that they have"),
	},
	"EphemeralDisk": {"Sticky": done(disks), "Migrate": done(disks), "SizeMB": done(scheduling)},
	"UpdateStrategy": {
		"HealthCheck": done(allocations), "MinHealthyTime": done(allocations), "HealthyDeadline": done(allocations),
		"MaxParallel": done(scheduling), "ProgressDeadline": done(scheduling),
		"Canary": done(scheduling), "AutoRevert": done(scheduling), "AutoPromote": done(scheduling),
		"Stagger": moot("deployments go on with health, also those of system jobs: as in Nomad, nothing waits for a fixed time"),
	},
	"TaskArtifact": {
		"GetterSource": done(artifacts), "GetterOptions": done(artifacts), "GetterHeaders": done(artifacts), "GetterMode": done(artifacts),
		"GetterInsecure": done(artifacts), "RelativeDest": done(artifacts), "Chown": done(tasks),
	},
	"Template": {
		"SourcePath": done(templates), "DestPath": done(templates), "EmbeddedTmpl": done(templates), "ChangeMode": done(templates),
		"ChangeSignal": done(templates), "Once": done(templates), "Splay": done(templates), "Perms": done(templates),
		"Uid": done(templates), "Gid": done(templates), "LeftDelim": done(templates), "RightDelim": done(templates),
		"Envvars": done(templates), "ErrMissingKey": done(templates),
		"ChangeScript": judged(templates), "Wait": done(templates),
		"VaultGrace": warned(obsolete),
	},
	"WaitConfig":            {"Min": done(templates), "Max": done(templates)},
	"DispatchPayloadConfig": {"File": done(tasks)},
}
