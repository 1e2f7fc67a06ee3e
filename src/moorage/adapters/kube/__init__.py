"""Everything between Moorage and a Kubernetes API server.

`credentials` holds our identity, `client` carries single requests, `discovery` says what the server serves, `reflector`
keeps a copy of one resource up to date, `binder` carries out the engine's commands, `events` publishes events.

What can go wrong, as exceptions. The binder, the recorder and the reflector turn them into values and states; only the
client and the credentials raise them:

    KubeError
    ├── CredentialsError        a kubeconfig, a token file or an exec plugin is unusable: file, field, value, remedy
    └── ApiError                a request did not succeed; carries status, reason, message and details
        ├── Unreachable         no answer: refused, reset, name unknown
        │   └── Untrusted       the server's certificate is not trusted
        ├── Timeout             no answer in time; the server may still carry the request out
        ├── BadRequest          400, 405, 415: the request itself is wrong
        ├── Unauthorized        401: the server does not know us, also after the credentials were renewed
        ├── Forbidden           403: the server knows us and says no
        ├── NotFound            404 of the API server: no such object
        ├── NoSuchPath          404 of a proxy, say; or a kind that the API server does not serve
        ├── NotServed           a 404 of which discovery says that the kind is not served
        ├── Conflict            409: the object is not in the state that the request assumed
        │   └── AlreadyExists   409 of a creation
        ├── Gone                410: the resource version is too old; list again
        ├── Invalid             422: a field is not acceptable
        ├── TooManyRequests     429: after all retries
        └── ServerError         500 and above
"""
