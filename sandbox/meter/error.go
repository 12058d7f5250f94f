package meter

import "errors"

// ErrImportsMeter says that the module imports the meter itself, which only a rewritten
// module does.
var ErrImportsMeter = errors.New("the name belongs to the fuel meter; a module cannot be metered twice, nor claim to be")
