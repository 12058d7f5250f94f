package taskenv

import "strings"

// The names of the variables, with Nomad's names.
const (
	AllocDir       = "NOMAD_ALLOC_DIR"
	TaskDir        = "NOMAD_TASK_DIR"
	SecretsDir     = "NOMAD_SECRETS_DIR"
	MemoryLimit    = "NOMAD_MEMORY_LIMIT"
	MemoryMaxLimit = "NOMAD_MEMORY_MAX_LIMIT"
	CPULimit       = "NOMAD_CPU_LIMIT"
	CPUCores       = "NOMAD_CPU_CORES"
	ParentCgroup   = "NOMAD_PARENT_CGROUP" // set by who knows it
	AllocID        = "NOMAD_ALLOC_ID"
	ShortAllocID   = "NOMAD_SHORT_ALLOC_ID"
	AllocName      = "NOMAD_ALLOC_NAME"
	AllocIndex     = "NOMAD_ALLOC_INDEX"
	TaskName       = "NOMAD_TASK_NAME"
	GroupName      = "NOMAD_GROUP_NAME"
	JobName        = "NOMAD_JOB_NAME"
	JobID          = "NOMAD_JOB_ID"
	JobParentID    = "NOMAD_JOB_PARENT_ID"
	Namespace      = "NOMAD_NAMESPACE"
	Datacenter     = "NOMAD_DC"
	Region         = "NOMAD_REGION"
)

// The prefixes of the variables that there is one of per port or meta key.
const (
	prefixIP             = "NOMAD_IP_"
	prefixPort           = "NOMAD_PORT_"
	prefixAddr           = "NOMAD_ADDR_"
	prefixHostPort       = "NOMAD_HOST_PORT_"
	prefixHostIP         = "NOMAD_HOST_IP_"
	prefixHostAddr       = "NOMAD_HOST_ADDR_"
	prefixAllocPort      = "NOMAD_ALLOC_PORT_"
	prefixAllocIP        = "NOMAD_ALLOC_IP_"
	prefixAllocAddr      = "NOMAD_ALLOC_ADDR_"
	prefixAllocInterface = "NOMAD_ALLOC_INTERFACE_"
	prefixIPv4           = "NOMAD_IPv4_"
	prefixIPv6           = "NOMAD_IPv6_"
	prefixMeta           = "NOMAD_META_"
)

// cleaned are the prefixes of names that are made from a label or key and so may hold
// what cannot be in a variable's name.
var cleaned = []string{
	prefixAddr, prefixIP, prefixPort, prefixHostPort, prefixMeta,
	prefixHostIP, prefixHostAddr, prefixAllocPort, prefixAllocIP, prefixAllocAddr, prefixAllocInterface, prefixIPv4, prefixIPv6,
}

// cleanName replaces what cannot be in a variable's name by '_' in names made from
// labels and keys. Names that the job chose itself are left as they are.
func cleanName(name string) string {
	for _, prefix := range cleaned {
		if strings.HasPrefix(name, prefix) {
			return strings.Map(cleanRune, name)
		}
	}
	return name
}

func cleanRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		return r
	}
	return '_'
}
