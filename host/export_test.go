package host

// Importable are the functions that a plugin may import, by module, with their signatures.
var Importable = importable

// HelperGranted reports whether a grant is one of that helper.
func HelperGranted(g ProcessGrant, command string, args ...string) bool {
	return g.helper(command, args) != nil
}

// WithStreams returns a context for a call of [Plugin.Call] that is about a command.
var WithStreams = withStreams
