package openapi

import (
	"net/http"

	"github.com/keelson-io/keelson/kind"
)

// This file has the paths of discovery.

// discoverySite returns a discovery path.
func discoverySite(path, id, tag, description, answer string) site {
	op := operation{
		method: http.MethodGet, id: id, tag: tag, description: description, consumes: encoded, produces: encoded, codes: []int{http.StatusOK},
	}
	if answer != "" {
		op.answer = metaPrefix + answer
	}
	return site{path: path, operations: []operation{op}}
}

// resources returns the path that lists the resources of a group version.
func resources(v *kind.Version) site {
	n := namer{v: v}
	return discoverySite("/"+keyOf(v)+"/", n.id("get", "APIResources"), n.tag(), "get available resources", "APIResourceList")
}

// groups returns the paths that describe groups, lists of groups, and the server.
func groups(versions []*kind.Version) []site {
	version := discoverySite("/version/", "getCodeVersion", "version", "get the version information for this server", "")
	version.operations[0].answer = versionPrefix + "Info"
	version.operations[0].consumes, version.operations[0].produces = jsonOnly, jsonOnly
	issuer := discoverySite("/.well-known/openid-configuration/", "getServiceAccountIssuerOpenIDConfiguration", "WellKnown",
		"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", "")
	issuer.operations[0].consumes, issuer.operations[0].produces = nil, jsonOnly
	keys := discoverySite("/openid/v1/jwks/", "getServiceAccountIssuerOpenIDKeyset", "openid",
		"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", "")
	keys.operations[0].consumes, keys.operations[0].produces = nil, []string{"application/jwk-set+json"}
	sites := []site{
		version, issuer, keys,
		discoverySite("/api/", "getCoreAPIVersions", "core", "get available API versions", "APIVersions"),
		discoverySite("/apis/", "getAPIVersions", "apis", "get available API versions", "APIGroupList"),
	}
	for _, v := range versions {
		if group := v.Kind.Group; group != "" {
			short := shortGroup(group)
			sites = append(sites, discoverySite("/apis/"+group+"/", "get"+identifier(short, true)+"APIGroup", identifier(short, false), "get information of a group", "APIGroup"))
		}
	}
	return sites
}

var jsonOnly = []string{"application/json"}
