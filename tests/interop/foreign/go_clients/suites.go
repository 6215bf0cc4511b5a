// Package foreign keeps the modules whose own tests are built here among the requirements.
package foreign

import _ "github.com/twmb/franz-go/pkg/kgo"
