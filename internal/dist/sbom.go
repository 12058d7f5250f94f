package main

import (
	"bytes"
	"fmt"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// spdxJSON is the bill of materials of what is published for a processor.
func spdxJSON(r release, arch string, modules []module) ([]byte, error) {
	const self = "wasmnode"
	at := fmt.Sprintf("https://github.com/wasmnode/wasmnode/spdx/%s/%s/%s", r.Version, r.Commit, arch)
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "wasmnode " + r.Version + " linux/" + arch, DocumentNamespace: at,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "wasmnode-dist"}, {CreatorType: "Organization", Creator: "wasmnode"}},
			Created:  r.Time.Format("2006-01-02T15:04:05Z"),
		},
	}
	add := func(id common.ElementID, name, version, licence, purl string) {
		doc.Packages = append(doc.Packages, &spdx.Package{
			PackageSPDXIdentifier: id, PackageName: name, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
			PackageLicenseConcluded: licence, PackageLicenseDeclared: licence, PackageCopyrightText: "NOASSERTION",
			PackageExternalReferences: []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}},
		})
	}
	relate := func(a common.ElementID, how string, b common.ElementID) {
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", string(a)), RefB: common.MakeDocElementID("", string(b)), Relationship: how,
		})
	}
	add(self, self, r.Version, "MPL-2.0", "pkg:golang/github.com/wasmnode/wasmnode@v"+strings.ReplaceAll(r.Version, "+", "%2B"))
	relate("DOCUMENT", common.TypeRelationshipDescribe, self)
	for i, m := range modules {
		id := common.ElementID(fmt.Sprintf("module-%d", i+1))
		add(id, m.Path, m.Version, strings.Join(m.Licences, " AND "), m.purl())
		relate(self, common.TypeRelationshipContains, id)
	}
	var b bytes.Buffer
	if err := spdxjson.Write(doc, &b, spdxjson.Indent("  ")); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
