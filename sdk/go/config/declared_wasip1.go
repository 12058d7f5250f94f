package config

// checkDeclared is done where the driver is tested natively.
func checkDeclared(any, *Fields) {}
