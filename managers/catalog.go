package managers

import (
	"github.com/hashicorp/go-hclog"
)

// CatalogConfig configures a [Catalog].
type CatalogConfig struct {
	// Dir is the plugin directory. It is created when it is missing.
	Dir    string
	Loader Loader
	Logger hclog.Logger
}

// Catalog keeps the plugins in service equal to the files in a directory. Its
// methods may be called concurrently.
type Catalog struct {
	cfg CatalogConfig
}

// NewCatalog returns a catalog that is not started. It fails when the directory
// can neither be found nor created.
func NewCatalog(cfg CatalogConfig) (*Catalog, error) {
	return &Catalog{cfg: cfg}, nil
}

// Start begins to watch. Managers of plugin types are made before that.
func (c *Catalog) Start() {}

// Shutdown ends watching and loading and returns when both have ended. Managers
// are shut down before. It may be called more than once, and before Start.
func (c *Catalog) Shutdown() {}

// Status returns the status of every plugin file, by file name.
func (c *Catalog) Status() []PluginStatus { return nil }

// Directory returns the state of the plugin directory.
func (c *Catalog) Directory() DirectoryStatus { return DirectoryStatus{Path: c.cfg.Dir} }
