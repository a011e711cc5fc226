{{/* Address ranges: which are of which family, and which lie inside which (C-44, C-45). */}}

{{/* A CIDR value, one text with commas or a list, as a JSON list. */}}
{{- define "k8s-runner.cidrs" -}}
{{- $all := list -}}
{{- $given := ternary (splitList "," (toString .)) . (kindIs "string" .) -}}
{{- range $given -}}
{{- with trim (toString .) -}}
{{- if not (regexMatch "^[0-9a-fA-F:.]+/[0-9]{1,3}$" .) -}}
{{- fail (printf "workloadEgressNetworkPolicy: %q is no CIDR such as 10.0.0.0/8 or fd00::/8" .) -}}
{{- end -}}
{{- $all = append $all . -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The number of the leading bits that matter: all 32 of IPv4, the first 16 of IPv6. */}}
{{- define "k8s-runner.leadingBits" -}}
{{- if contains ":" . -}}
{{- $first := index (splitList ":" .) 0 -}}
{{- int64 (printf "0x%s" (default "0" $first)) -}}
{{- else -}}
{{- $sum := 0 -}}
{{- range splitList "." (index (splitList "/" .) 0) -}}
{{- $sum = add (mul $sum 256) (atoi .) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
{{- end -}}

{{- define "k8s-runner.prefix" -}}
{{- atoi (index (splitList "/" .) 1) -}}
{{- end -}}

{{/* "true" when the range `inner` and `block` share the first bits of `block`. */}}
{{- define "k8s-runner.sharesPrefix" -}}
{{- $prefix := int (include "k8s-runner.prefix" .block) -}}
{{- $width := ternary 16 32 (contains ":" .block) -}}
{{- if gt $prefix $width -}}
{{- fail (printf "workloadEgressNetworkPolicy: %s is too narrow a range to take internal ranges out of; an IPv6 range has a prefix of at most 16" .block) -}}
{{- end -}}
{{- $size := 1 -}}
{{- range until (int (sub $width $prefix)) -}}
{{- $size = mul $size 2 -}}
{{- end -}}
{{- if eq (div (int64 (include "k8s-runner.leadingBits" .block)) $size) (div (int64 (include "k8s-runner.leadingBits" .inner)) $size) }}true{{ end -}}
{{- end -}}

{{/* What an ipBlock of `block` has to leave out of `internal`, as a JSON list: only what lies inside, or the API refuses all of it. */}}
{{- define "k8s-runner.except" -}}
{{- $block := .block -}}
{{- $except := list -}}
{{- range .internal -}}
{{- if eq (contains ":" .) (contains ":" $block) -}}
{{- if gt (int (include "k8s-runner.prefix" .)) (int (include "k8s-runner.prefix" $block)) -}}
{{- if include "k8s-runner.sharesPrefix" (dict "block" $block "inner" .) -}}
{{- $except = append $except . -}}
{{- end -}}
{{- else if include "k8s-runner.sharesPrefix" (dict "block" . "inner" $block) -}}
{{- fail (printf "workloadEgressNetworkPolicy: publicInternetCIDR %s lies inside the internal range %s" $block .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (uniq $except) -}}
{{- end -}}
