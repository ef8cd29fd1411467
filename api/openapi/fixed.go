package openapi

import (
	"net/http"

	"github.com/keelson-io/keelson/kind"
)

// This file has the paths of what says what there is.

// say is a path that says what there is.
func say(path, id, tag, description, answer string) site {
	op := operation{
		method: http.MethodGet, id: id, tag: tag, description: description, consumes: encoded, produces: encoded, codes: []int{http.StatusOK},
	}
	if answer != "" {
		op.answer = metaPrefix + answer
	}
	return site{path: path, operations: []operation{op}}
}

// resources is the path of the list of a group version's resources.
func resources(v *kind.Version) site {
	n := namer{v: v}
	return say("/"+keyOf(v)+"/", n.id("get", "APIResources"), n.tag(), "get available resources", "APIResourceList")
}

// groups are the paths of groups, of all that there are, and of the server itself.
func groups(versions []*kind.Version) []site {
	version := say("/version/", "getCodeVersion", "version", "get the version information for this server", "")
	version.operations[0].answer = versionPrefix + "Info"
	version.operations[0].consumes, version.operations[0].produces = jsonOnly, jsonOnly
	issuer := say("/.well-known/openid-configuration/", "getServiceAccountIssuerOpenIDConfiguration", "WellKnown",
		"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", "")
	issuer.operations[0].consumes, issuer.operations[0].produces = nil, jsonOnly
	keys := say("/openid/v1/jwks/", "getServiceAccountIssuerOpenIDKeyset", "openid",
		"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", "")
	keys.operations[0].consumes, keys.operations[0].produces = nil, []string{"application/jwk-set+json"}
	sites := []site{
		version, issuer, keys,
		say("/api/", "getCoreAPIVersions", "core", "get available API versions", "APIVersions"),
		say("/apis/", "getAPIVersions", "apis", "get available API versions", "APIGroupList"),
	}
	for _, v := range versions {
		if group := v.Kind.Group; group != "" {
			short := shortGroup(group)
			sites = append(sites, say("/apis/"+group+"/", "get"+identifier(short, true)+"APIGroup", identifier(short, false), "get information of a group", "APIGroup"))
		}
	}
	return sites
}

var jsonOnly = []string{"application/json"}
