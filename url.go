package tidemark

import (
	"net/url"
	"regexp"
)

var userinfo = regexp.MustCompile(`(//[^/@\s:]*):[^/\s]*@`)
var secretParam = regexp.MustCompile(`(?i)((?:password|passwd|pwd|sslpassword|secret|token)=)[^&\s]+`)

// MaskURL hides the password of a connection string, in whatever text it stands,
// so that it may be printed, logged and stored.
func MaskURL(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.User(u.User.Username())
			s = u.String()
		}
	}
	s = userinfo.ReplaceAllString(s, "$1@")
	return secretParam.ReplaceAllString(s, "${1}***")
}
