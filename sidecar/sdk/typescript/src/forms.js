/**
 * What redactor and recorder go by: keys, tables, and patterns as Python has them.
 * Written by tests/sidecar/sdk/make_forms.py; never edited.
 */

export const SECRET_KEYS = [
  "authorization",
  "proxy_authorization",
  "api_key",
  "apikey",
  "x_api_key",
  "password",
  "passwd",
  "pwd",
  "passphrase",
  "secret",
  "client_secret",
  "token",
  "access_token",
  "refresh_token",
  "id_token",
  "session_token",
  "cookie",
  "set_cookie",
  "private_key",
  "access_key",
  "secret_key",
  "credential",
  "credentials",
  "otp",
  "cvv",
  "cvc",
  "pin"
];

export const ENDS = [
  "password",
  "passwd",
  "secret",
  "token",
  "apikey"
];

export const NAMED = [
  "(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)[^\\s&;,\\\"'<>]{1,8192}",
  "(?<![\\w-])(?P<named>[A-Za-z0-9_-]{2,64})[\\\"']?[ \\t]{0,8}(?:=>|:?=|:)[ \\t]{0,8}(?=[\\\"'])|(?<![\\w-])(?P<option>--?[A-Za-z][\\w-]{1,63})[ \\t]{1,4}(?![-|])|^[ \\t]{0,64}(?:- )?(?P<line>[A-Za-z0-9_-]{2,64}):[ \\t]{1,8}(?:(?:basic|digest|token)[ \\t]{1,4})?(?=[^\\s\\\"'\\[{|>#]\\S{0,8191}[ \\t]{0,64}$)|(?<=[\\\"'])(?P<quoted>[A-Za-z0-9_-]{2,64}):[ \\t]{1,8}(?:(?:basic|digest|token)[ \\t]{1,4})?(?=[^\\s\\\"'\\[{|>#][^\\s\\\"']{0,8191}[\\\"'])",
  "(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)(?:\"(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)((?:[^\"\\\\\\n]|\\\\.){1,8192})|'(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)((?:[^'\\\\\\n]|\\\\.){1,8192})|([^\\s\"'][^\\s&;\"'<>]{0,8191}))",
  "(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)()()(\\S{1,8192})"
];

export const DETECTORS = [
  {
    "name": "private_key",
    "pattern": "-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\\Z)",
    "group": 0,
    "needles": [
      "private key"
    ]
  },
  {
    "name": "jwt",
    "pattern": "(?<![\\w-])eyJ[\\w-]{5,4096}\\.[\\w-]{5,8192}\\.[\\w-]{0,2048}",
    "group": 0,
    "needles": [
      "eyj"
    ]
  },
  {
    "name": "api_key",
    "pattern": "(?<![\\w-])(?:(?:sk|pk|rk)[-_][\\w-]{16,256}|AKIA[0-9A-Z]{16}|gh[pousr]_\\w{30,255}|xox[abprs]-[\\w-]{10,256})(?![\\w-])",
    "group": 0,
    "needles": [
      "sk-",
      "sk_",
      "pk-",
      "pk_",
      "rk-",
      "rk_",
      "akia",
      "ghp_",
      "gho_",
      "ghu_",
      "ghs_",
      "ghr_",
      "xox"
    ]
  },
  {
    "name": "bearer",
    "pattern": "(?i)(?<!\\w)bearer[ \\t]{1,4}(?!tok:|hmac:)([\\w.~+/=-]{8,8192})",
    "group": 1,
    "needles": [
      "bearer"
    ]
  },
  {
    "name": "email",
    "pattern": "(?<![\\w.%+-])[\\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\\.[A-Za-z0-9-]{1,63}){1,8}",
    "group": 0,
    "needles": [
      "@"
    ]
  },
  {
    "name": "secret",
    "pattern": "(?i)\"(?:authorization|proxy[-_]authorization|api[-_]key|apikey|x[-_]api[-_]key|password|passwd|pwd|passphrase|secret|client[-_]secret|token|access[-_]token|refresh[-_]token|id[-_]token|session[-_]token|cookie|set[-_]cookie|private[-_]key|access[-_]key|secret[-_]key|credential|credentials|otp|cvv|cvc|pin)\"[ \t\n]{0,8}:[ \t\n]{0,8}\"(?!\\[[a-z_]{1,32}\\]|tok:|hmac:)((?:[^\"\\\\]|\\\\.){1,8192})",
    "group": 1,
    "needles": [
      "\""
    ]
  },
  {
    "name": "credential",
    "pattern": "(?<=://)(?!\\[|tok:|hmac:)([^\\s/@?#]{1,512})(?=@)",
    "group": 1,
    "needles": [
      "://"
    ]
  },
  {
    "name": "card",
    "pattern": "(?<![\\w-])[0-9](?:[ -]?[0-9]){12,18}(?![\\w-])",
    "group": 0,
    "needles": []
  }
];

export const CODECS = {
  "provider": {
    "seam": "provider",
    "input": {
      "volatile": [
        "/timeout",
        "/extra_headers",
        "/headers",
        "/stream_options"
      ]
    },
    "output": {
      "volatile": [
        "/id",
        "/created",
        "/system_fingerprint",
        "/usage",
        "/service_tier"
      ]
    }
  },
  "http": {
    "seam": "http",
    "input": {
      "volatile": [
        "/headers/date",
        "/headers/traceparent",
        "/headers/tracestate",
        "/headers/baggage",
        "/headers/x-request-id",
        "/headers/request-id",
        "/headers/x-stainless-retry-count",
        "/headers/user-agent",
        "/headers/content-length",
        "/headers/age",
        "/headers/etag",
        "/headers/cf-ray",
        "/headers/server",
        "/headers/via"
      ]
    },
    "output": {
      "volatile": [
        "/headers/date",
        "/headers/traceparent",
        "/headers/tracestate",
        "/headers/baggage",
        "/headers/x-request-id",
        "/headers/request-id",
        "/headers/x-stainless-retry-count",
        "/headers/user-agent",
        "/headers/content-length",
        "/headers/age",
        "/headers/etag",
        "/headers/cf-ray",
        "/headers/server",
        "/headers/via"
      ]
    }
  }
};

export const SCHEMA = "tape/1.0.0";

export const SEAMS_OF = {
  "llm_call": [
    "provider"
  ],
  "tool_call": [
    "tool",
    "http",
    "fs"
  ],
  "tool_result": [
    "tool",
    "http",
    "fs"
  ],
  "state_patch": [
    "tool",
    "fs"
  ],
  "decision": [
    "clock",
    "entropy",
    "env",
    "scheduler",
    ""
  ],
  "human_input": [
    "human"
  ],
  "error": [
    "provider",
    "tool",
    "clock",
    "entropy",
    "env",
    "http",
    "fs",
    "scheduler",
    "human",
    ""
  ],
  "terminal": [
    ""
  ]
};

export const INLINE_BYTES_MAX = 2048;

export const BLOB_BYTES_MAX = 67108864;

export const GZIP_FROM = 4096;

export const BODY_BYTES_MAX = 33554432;

export const FIELDS_MAX = 1000;

export const MODEL_PATHS = [
  "/chat/completions",
  "/completions",
  "/responses",
  "/messages",
  "/embeddings",
  ":generatecontent",
  ":streamgeneratecontent"
];

export const MODEL_TOLD = [
  "messages",
  "input",
  "prompt",
  "contents"
];

export const HEADER_SECRET = "(?:^|[-_])(?:auth|\\w*authorization|\\w*token|\\w*secret|password|passwd|pwd|cookies?|credentials?|sig|signature|session\\w*|sid|assertion|jwt)(?:$|[-_])|^key$|(?:api|access|secret|private|subscription|client|license|auth)[-_]?key(?:$|[-_])";

export const HEADER_PAGING = "^(?:next|prev|page|continuation|sync|cursor)[-_]?(?:page)?[-_]?token$";

export const PLUMBING = [
  "accept-encoding",
  "amz-sdk-invocation-id",
  "amz-sdk-request",
  "b3",
  "baggage",
  "connection",
  "content-length",
  "date",
  "expect",
  "host",
  "keep-alive",
  "proxy-connection",
  "request-id",
  "sentry-trace",
  "te",
  "traceparent",
  "tracestate",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "x-amzn-trace-id",
  "x-client-request-id",
  "x-correlation-id",
  "x-goog-api-client",
  "x-request-id"
];

export const PLUMBING_STARTS = [
  "x-stainless-",
  "x-b3-",
  "x-datadog-",
  "x-cloud-trace",
  "x-amz-date"
];

export const CLIENTS_OWN = [
  "stainless-"
];

export const STREAMED_LINES = [
  "application/json-seq",
  "application/jsonl",
  "application/ndjson",
  "application/stream+json",
  "application/x-jsonlines",
  "application/x-ndjson"
];

export const STREAMED_AS_IT_CAME = [
  "",
  "application/octet-stream",
  "application/vnd.amazon.eventstream",
  "text/plain"
];

export const PIECE_BYTES_MAX = 8388608;

export const STREAM_LAST = [
  "error",
  "message_stop",
  "response.completed",
  "response.failed",
  "response.incomplete"
];

export const STREAM_JOINED = [
  "arguments",
  "content",
  "data",
  "reasoning_content",
  "refusal",
  "text"
];
