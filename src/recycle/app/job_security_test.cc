#include "recycle/app/job_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "recycle/app/token_file.h"
#include "recycle/testing/certificates.h"

namespace recycle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class JobSecurity : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "security-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string path = (folder_ / name).string();
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  // Files of an authority and of what it has signed, as the section `security` names them.
  void UseTls(const TestAuthority& authority, const TestAuthority::Signed& own) {
    config_.security.ca_file = Write("ca.pem", authority.pem());
    config_.security.certificate_file = Write("own.pem", own.certificate);
    config_.security.key_file = Write("own.key", own.key);
  }

  std::string Complaint() const {
    const Status status = LoadSecurity(config_).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  std::filesystem::path folder_;
  JobConfig config_;
};

std::string Base64Token() { return "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="; }

TEST_F(JobSecurity, ATokenIsAFileForItsOwnerAlone) {
  for (const mode_t mode : {0600U, 0400U}) {
    EXPECT_EQ(ReadTokenFile(Write("token", Base64Token() + "\n", mode)).value(), Base64Token());
  }
  for (const mode_t mode : {0644U, 0640U, 0700U, 0602U, 04600U}) {
    const std::string path = Write("token", Base64Token(), mode);
    config_.security.token_file = path;
    EXPECT_THAT(Complaint(), AllOf(HasSubstr("security.token_file '" + path + "' has mode "),
                                   HasSubstr("chmod 600 " + path), Not(HasSubstr("MDEy"))));
  }
  config_.security.token_file = folder_.string();
  EXPECT_THAT(Complaint(), HasSubstr("no regular file"));
  config_.security.token_file = (folder_ / "missing").string();
  EXPECT_THAT(Complaint(),
              HasSubstr("make one with (umask 077; head -c 32 /dev/urandom | base64 > " +
                        config_.security.token_file + ")"));
}

TEST_F(JobSecurity, ATokenHasThirtyTwoRandomBytes) {
  const std::string hex(64, 'f');
  for (const std::string& good : {Base64Token(), hex, std::string(43, '_')}) {
    EXPECT_TRUE(ReadTokenFile(Write("token", good)).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("secret"), hex.substr(1), Base64Token().substr(2),
        Base64Token() + "\n" + Base64Token(), Base64Token() + " ", std::string(43, '*'),
        std::string(1100, 'a')}) {
    const Status status = ReadTokenFile(Write("token", bad)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("head -c 32"));
  }
}

TEST_F(JobSecurity, AnAddressThatOthersReachNeedsAToken) {
  EXPECT_TRUE(CheckSecurityKeys(config_).ok());
  for (const char* const loopback : {"127.0.0.1", "127.9.9.9", "::1"}) {
    config_.launch.listen = loopback;
    EXPECT_TRUE(CheckSecurityKeys(config_).ok()) << loopback;
  }
  for (const char* const open : {"192.0.2.1", "10.0.0.1", "fd00::1", "::ffff:127.0.0.1"}) {
    config_.launch.listen = open;
    config_.security.token_file = "";
    EXPECT_THAT(std::string(CheckSecurityKeys(config_).message()),
                AllOf(HasSubstr(open), HasSubstr("security.token_file"), HasSubstr("head -c 32")));
    config_.security.token_file = "/token";
    EXPECT_TRUE(CheckSecurityKeys(config_).ok()) << open;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSecurity(config_)));
}

TEST_F(JobSecurity, WorkersElsewhereListenByTheSameRules) {
  const auto complaint = [this](const std::string& listen) {
    return std::string(CheckListenHere(config_, "--listen", listen).message());
  };
  EXPECT_EQ(complaint("127.0.0.1"), "");
  EXPECT_THAT(complaint("host-2"), HasSubstr("--listen is 'host-2', but it must be a numeric"));
  EXPECT_THAT(complaint("192.0.2.1"), HasSubstr("it needs security.token_file"));
  config_.security.token_file = Write("token", Base64Token());
  EXPECT_THAT(complaint("192.0.2.1"), HasSubstr("it must be an address of this machine"));
}

TEST_F(JobSecurity, FilesThatBelongTogetherAreAllThere) {
  config_.security.ca_file = "/ca.pem";
  EXPECT_THAT(std::string(CheckSecurityKeys(config_).message()),
              HasSubstr("security.ca_file is set without security.certificate_file"));
  config_.security.certificate_file = "/own.pem";
  EXPECT_THAT(std::string(CheckSecurityKeys(config_).message()), HasSubstr("security.key_file"));
  config_.security.key_file = "/own.key";
  EXPECT_TRUE(CheckSecurityKeys(config_).ok());
  config_.security.etcd_ca_file = "/etcd.pem";
  EXPECT_THAT(std::string(CheckSecurityKeys(config_).message()), HasSubstr("etcd://"));
  config_.resilience.store = "etcd://127.0.0.1:2379";
  EXPECT_TRUE(CheckSecurityKeys(config_).ok());
}

TEST_F(JobSecurity, ACertificateIsJudgedAtTheStart) {
  const TestAuthority authority;
  UseTls(authority, authority.Sign("127.0.0.1"));
  const StatusOr<RpcSecurity> loaded = LoadSecurity(config_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tls->ca, authority.pem());

  UseTls(authority, authority.Sign("127.0.0.1", -20, -10));
  EXPECT_THAT(Complaint(), AllOf(HasSubstr("security.certificate_file '"), HasSubstr("expired")));
  UseTls(authority, authority.Sign("127.0.0.1", 10, 20));
  EXPECT_THAT(Complaint(), HasSubstr("not yet valid"));
  UseTls(authority, authority.Sign("127.0.0.2"));
  EXPECT_THAT(Complaint(), HasSubstr("not for 127.0.0.1"));
  UseTls(TestAuthority(), authority.Sign("127.0.0.1"));
  EXPECT_THAT(Complaint(), HasSubstr("security.certificate_file '"));
  UseTls(authority, {authority.Sign("127.0.0.1").certificate, authority.Sign("127.0.0.1").key});
  EXPECT_THAT(Complaint(), AllOf(HasSubstr("security.key_file '"), HasSubstr("not the cert")));
  UseTls(authority, {"no certificate", "no key"});
  EXPECT_THAT(Complaint(), HasSubstr("holds no certificate in PEM"));
  UseTls(authority, {authority.Sign("127.0.0.1").certificate, "no key"});
  EXPECT_THAT(Complaint(), HasSubstr("holds no private key in PEM"));
  config_.security.ca_file = "/nowhere";
  EXPECT_THAT(Complaint(), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace recycle
