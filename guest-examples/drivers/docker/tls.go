package main

import (
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
)

// checkTLS refuses what of the plugin's tls makes no sense.
func checkTLS(endpoint string, tls config.Value) error {
	if !tls.IsSet() {
		return nil
	}
	for _, f := range tls.Fields() {
		if file := f.Value.Text(); file != "" && !path.IsAbs(file) {
			return abi.NewError(abi.InvalidArgument, "tls."+f.Name+": "+file+" is not an absolute path")
		}
	}
	switch {
	case !strings.HasPrefix(endpoint, "tcp://") && !strings.HasPrefix(endpoint, "https://"):
		return abi.NewError(abi.InvalidArgument, "tls: the endpoint "+endpoint+" is not tcp://HOST:PORT or https://HOST:PORT")
	case (tls.Get("cert").Text() == "") != (tls.Get("key").Text() == ""):
		return abi.NewError(abi.InvalidArgument, "tls: cert and key go together")
	}
	return nil
}

// tlsOptions are what the engine is verified by, and what it verifies the driver by; nil: the node's
// own roots, and nothing.
func (e engine) tlsOptions() (*plainhttp.TLS, error) {
	if !e.tls.IsSet() {
		return nil, nil
	}
	o := &plainhttp.TLS{}
	for name, into := range map[string]*[]byte{"ca": &o.RootsPem, "cert": &o.CertificatePem, "key": &o.KeyPem} {
		file := e.tls.Get(name).Text()
		if file == "" {
			continue
		}
		var err error
		if *into, err = readSetting("tls."+name, file); err != nil {
			return nil, err
		}
	}
	return o, nil
}
