// An OAuth server for peer_test.go: one client, one refresh token made in advance.
// It prints its address and that token as one line of JSON.
import http from 'node:http';
import Provider from 'oidc-provider';

const server = http.createServer((req, res) => handle(req, res));
let handle;
server.listen(0, '127.0.0.1', async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    clients: [{
      client_id: 'client', client_secret: 'CANARY-secret',
      grant_types: ['client_credentials', 'refresh_token', 'authorization_code'],
      redirect_uris: ['https://client.example/'], response_types: ['code'],
    }],
    features: { clientCredentials: { enabled: true }, introspection: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: false } },
    rotateRefreshToken: true,
    ttl: { ClientCredentials: 3600, AccessToken: 3600, RefreshToken: 86400, Grant: 86400 },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  handle = provider.callback();
  const client = await provider.Client.find('client');
  const grant = new provider.Grant({ accountId: 'somebody', clientId: 'client' });
  grant.addOIDCScope('openid offline_access');
  const refresh = new provider.RefreshToken({
    client, accountId: 'somebody', grantId: await grant.save(), gty: 'authorization_code',
    scope: 'openid offline_access', claims: {}, authTime: Math.floor(Date.now() / 1000), sessionUid: 'x', expiresWithSession: false, rotations: 0, iiat: Math.floor(Date.now() / 1000),
  });
  console.log(JSON.stringify({ url, refresh: await refresh.save() }));
});
