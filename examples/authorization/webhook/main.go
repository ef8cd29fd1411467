// Command webhook is an authorization webhook for the examples protect-crds and scoped-role. It
// denies what its policy forbids, and leaves everything else to the authorizers behind it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
)

func main() {
	address := flag.String("address", "127.0.0.1:9443", "address to listen on")
	certificate := flag.String("certificate", "cert.pem", "file with the certificate")
	key := flag.String("key", "key.pem", "file with the key of the certificate")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("serving https://%s\n", listener.Addr())
	server := http.Server{Handler: http.HandlerFunc(review), ReadTimeout: 10 * time.Second}
	log.Fatal(server.ServeTLS(listener, *certificate, *key))
}

// review answers a SubjectAccessReview.
func review(w http.ResponseWriter, r *http.Request) {
	var answer authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&answer); err != nil {
		http.Error(w, "want a SubjectAccessReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	// Neither allowed nor denied means no opinion: the next authorizer is asked.
	reason := forbids(&answer.Spec)
	answer.Status = authorizationv1.SubjectAccessReviewStatus{Denied: reason != "", Reason: reason}
	log.Printf("%s: denied=%t %s", answer.Spec.User, answer.Status.Denied, reason)
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Print(err)
	}
}

// forbids returns why the policy forbids a request, "" if it does not. It does not rely on the match
// conditions of the server, which only save calls.
func forbids(request *authorizationv1.SubjectAccessReviewSpec) string {
	resource := request.ResourceAttributes
	if resource == nil {
		return "" // a path such as /healthz
	}
	changes := slices.Contains([]string{"update", "patch", "delete", "deletecollection"}, resource.Verb)
	protected := resource.Name == "" || strings.HasSuffix(resource.Name, ".platform.example.com")
	switch {
	case resource.Group == "apiextensions.k8s.io" && resource.Resource == "customresourcedefinitions" &&
		changes && protected && !slices.Contains(request.Groups, "system:serviceaccounts:platform"):
		return "the platform's CRDs are changed by its controller only"
	case slices.Contains(request.Groups, "contractors") && !slices.Contains([]string{"staging", "sandbox"}, resource.Namespace):
		return "contractors work in staging and sandbox only"
	}
	return ""
}
