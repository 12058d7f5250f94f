name      = "old"
type      = "host"
host_path = "/none/of/these"
